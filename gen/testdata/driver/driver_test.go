// Package goldens runs the generated code of all golden cases in one test binary. The test of
// package gen copies this file into a module next to the generated packages, with a file that lists
// them in the variable cases, and reads the report that it writes.
package goldens

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
)

// golden is one generated package.
type golden struct {
	name      string
	revisions []string
	create    func(definition string) codec.Value
	validate  func(v codec.Value, rev string) error
	run       func(w io.Writer) // nil if the case has no run.go
}

// of makes a golden from the generated functions New and Value.Validate.
func of[V codec.Value, R ~string](name string, create func(string) V, validate func(V, R) error, revisions ...string) golden {
	return golden{
		name: name, revisions: revisions,
		create: func(definition string) codec.Value {
			v := create(definition)
			if codec.Value(v) == nil {
				return nil
			}
			return v
		},
		validate: func(v codec.Value, rev string) error { return validate(v.(V), R(rev)) },
	}
}

func (g golden) with(run func(io.Writer)) golden {
	g.run = run
	return g
}

// report is the output that package gen compares with the case.
type report struct{ JSON, Faults, Out string }

func TestRun(t *testing.T) {
	reports := map[string]report{}
	for _, g := range cases {
		t.Run(g.name, func(t *testing.T) {
			r, err := g.lines()
			if err != nil {
				t.Error(err)
			}
			if g.run != nil {
				var out strings.Builder
				g.run(&out)
				r.Out = out.String()
			}
			reports[g.name] = r
		})
	}
	data, err := json.Marshal(reports)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("report.json", data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// lines decodes, validates and encodes the lines of the case's in.json. The error lists the values
// that change in a round trip.
func (g golden) lines() (report, error) {
	var r report
	src, err := os.ReadFile(filepath.Join(g.name, "in.json"))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	var lossy []error
	sc := bufio.NewScanner(bytes.NewReader(src))
	for n := 1; sc.Scan(); n++ {
		definition, text, _ := strings.Cut(sc.Text(), " ")
		v := g.create(definition)
		if v == nil {
			return r, fmt.Errorf("line %d: there is no definition %q", n, definition)
		}
		if err := codec.Unmarshal([]byte(text), v); err != nil {
			var e *codec.Error
			if !errors.As(err, &e) {
				return r, err
			}
			r.JSON += fmt.Sprintf("error at %q\n", e.Pointer)
			continue
		}
		out, err := codec.Marshal(v)
		if err != nil {
			return r, fmt.Errorf("line %d: %w", n, err)
		}
		r.JSON += typeName(v) + " " + string(out) + "\n"
		if err := same([]byte(text), out); err != nil {
			lossy = append(lossy, fmt.Errorf("line %d: %s became %s: %w", n, text, out, err))
		}
		for _, rev := range g.revisions {
			r.Faults += faults(fmt.Sprintf("%d %s", n, rev), g.validate(v, rev))
		}
	}
	return r, errors.Join(lossy...)
}

// typeName returns the Go type of v, or of the value in a holder, without the package.
func typeName(v any) string {
	if h, ok := v.(interface{ Unwrap() any }); ok {
		v = h.Unwrap()
	}
	return strings.NewReplacer("p.", "", "interface {}", "any", "jsontext.Value", "json.RawMessage").Replace(fmt.Sprintf("%T", v))
}

// faults returns a line for each fault, with its place and the schema keyword that it violates.
func faults(head string, err error) string {
	if err == nil {
		return ""
	}
	var list jsonschema.Faults
	if !errors.As(err, &list) {
		return fmt.Sprintf("%s: %v\n", head, err)
	}
	var b strings.Builder
	for _, f := range list {
		keyword := "type"
		var e *jsonschema.Error
		if errors.As(f, &e) {
			keyword = e.Keyword
		}
		fmt.Fprintf(&b, "%s %q: %s\n", head, f.Pointer, keyword)
	}
	return b.String()
}

// same compares two JSON texts as values. Numbers must be exactly equal.
func same(a, b []byte) error {
	va, err := parse(a)
	if err != nil {
		return err
	}
	vb, err := parse(b)
	if err != nil {
		return err
	}
	return compare("", va, vb)
}

func parse(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func compare(at string, a, b any) error {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || !slices.Equal(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))) {
			return fmt.Errorf("%q differs", at)
		}
		for name, v := range a {
			if err := compare(at+"/"+name, v, b[name]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return fmt.Errorf("%q differs", at)
		}
		for i, v := range a {
			if err := compare(fmt.Sprintf("%s/%d", at, i), v, b[i]); err != nil {
				return err
			}
		}
		return nil
	case json.Number:
		if b, ok := b.(json.Number); ok {
			x, okx := new(big.Rat).SetString(a.String())
			y, oky := new(big.Rat).SetString(b.String())
			if okx && oky && x.Cmp(y) == 0 {
				return nil
			}
		}
	default:
		if reflect.DeepEqual(a, b) {
			return nil
		}
	}
	return fmt.Errorf("%q differs", at)
}

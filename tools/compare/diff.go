package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/mcpwire/mcpwire/internal/jsonedit"
)

// Change is one difference between two JSON values.
type Change struct {
	Pointer string // JSON pointer to the value
	Old     string // JSON text; "" if the value is new
	New     string // JSON text; "" if the value was lost
}

// String describes the change in a few words.
func (c Change) String() string {
	at := c.Pointer
	if strings.ContainsFunc(at, func(r rune) bool { return !unicode.IsPrint(r) }) {
		at = code(at)
	}
	switch {
	case c.New == "":
		return "lost " + at + " " + code(c.Old)
	case c.Old == "":
		return "added " + at + " " + code(c.New)
	}
	return "changed " + at + " from " + code(c.Old) + " to " + code(c.New)
}

// Compare lists the differences between two JSON texts. Members may come in any order; numbers are
// equal if they have the same mathematical value.
func Compare(before, after []byte) ([]Change, error) {
	a, err := parse(before)
	if err != nil {
		return nil, err
	}
	b, err := parse(after)
	if err != nil {
		return nil, err
	}
	return compare(nil, "", a, b), nil
}

func parse(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("text after the value")
	}
	return v, nil
}

func compare(changes []Change, at string, a, b any) []Change {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		names := slices.Concat(slices.Collect(maps.Keys(x)), slices.Collect(maps.Keys(y)))
		slices.Sort(names)
		for _, name := range slices.Compact(names) {
			p := at + "/" + jsonedit.EscapeToken(name)
			v, before := x[name]
			w, after := y[name]
			switch {
			case !after:
				changes = append(changes, Change{p, text(v), ""})
			case !before:
				changes = append(changes, Change{p, "", text(w)})
			default:
				changes = compare(changes, p, v, w)
			}
		}
		return changes
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		for i := range max(len(x), len(y)) {
			p := at + "/" + strconv.Itoa(i)
			switch {
			case i >= len(y):
				changes = append(changes, Change{p, text(x[i]), ""})
			case i >= len(x):
				changes = append(changes, Change{p, "", text(y[i])})
			default:
				changes = compare(changes, p, x[i], y[i])
			}
		}
		return changes
	case json.Number:
		y, ok := b.(json.Number)
		if ok && number(x.String()) == number(y.String()) {
			return changes
		}
	default:
		if a == b {
			return changes
		}
	}
	return append(changes, Change{at, text(a), text(b)})
}

// number returns the canonical form of a number: its digits without zeros at either end, followed
// by an exponent.
func number(s string) string {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(s), "e")
	e, _ := strconv.Atoi(exponent)
	sign := ""
	if strings.HasPrefix(mantissa, "-") {
		sign, mantissa = "-", mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	e -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	kept := strings.TrimRight(digits, "0")
	if kept == "" {
		return "0"
	}
	return sign + kept + "e" + strconv.Itoa(e+len(digits)-len(kept))
}

func text(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // v came from JSON
	}
	return strings.TrimSpace(b.String())
}

package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// comparison runs once, because it compiles generated code.
var comparison = sync.OnceValues(Run)

// anyOverflow hides the result of converting a float64 that overflows an int64. It depends on the
// processor, and go-sdk makes an id of it.
var anyOverflow = strings.NewReplacer("-9223372036854775808", "overflow", "9223372036854775807", "overflow")

func TestComparisonPagesAreUpToDate(t *testing.T) {
	r, err := comparison()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := r.pages()
	if err != nil {
		t.Fatal(err)
	}
	checkPages(t, pages)
}

func TestHostilePagesAreUpToDate(t *testing.T) {
	checkPages(t, RunHostile().pages())
}

func checkPages(t *testing.T, pages []page) {
	t.Helper()
	for _, p := range pages {
		file := "../../docs/reference/" + p.file
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(anyOverflow.Replace(string(want)), anyOverflow.Replace(p.text)); diff != "" {
			t.Errorf("%s is out of date, run go run . ../../docs/reference (-want +got):\n%s", file, diff)
		}
	}
}

func TestMCPWireIsCorrectOnHostileInputs(t *testing.T) {
	p := mcpwire()
	for _, g := range hostileGroups() {
		for _, in := range g.Inputs {
			if c := attempt(in, p, false); c.Wrong || c.Verdict == NoType {
				t.Errorf("%s, %s: %s %q", g.Name, in.Name, c.Verdict, c.Notes)
			}
		}
	}
}

func TestMCPWireKeepsValidAndRefusesInvalidDocuments(t *testing.T) {
	p := mcpwire()
	for _, g := range Groups() {
		for _, in := range g.Inputs {
			want := Exact
			if in.Want == Refuse {
				want = Refused
			}
			if c := judge(in, p.Attempt(in)); c.Verdict != want || c.Wrong {
				t.Errorf("%s, %s: %s %q, want %s", g.Name, in.Name, c.Verdict, c.Notes, want)
			}
		}
	}
}

// refusals lists the error and its JSON pointer for each document that must be refused.
var refusals = map[string]struct {
	err     error
	pointer string
}{
	"id null":                       {jsonfault.ID, "/id"},
	"id 1.5":                        {jsonfault.ID, "/id"},
	"id true":                       {jsonfault.ID, "/id"},
	"version 1.0":                   {jsonfault.Version, "/jsonrpc"},
	"version missing":               {jsonfault.Version, ""},
	"params an array":               {jsonfault.Positional, "/params"},
	"ID and METHOD in capitals":     {jsonfault.Neither, ""},
	"result without id":             {jsonfault.NoID, ""},
	"result null":                   {jsonfault.Result, "/result"},
	"error without code":            {jsonfault.Error, "/error"},
	"name missing":                  {required, ""},
	"name null":                     {mistyped, "/name"},
	"Name for name":                 {required, ""},
	"name a number":                 {mistyped, "/name"},
	"arguments an array":            {mistyped, "/arguments"},
	"content missing":               {required, ""},
	"content null":                  {mistyped, "/content"},
	"content a single block":        {mistyped, "/content"},
	"isError a string":              {mistyped, "/isError"},
	"text missing":                  {required, "/content/0"},
	"priority 1.5":                  {&jsonschema.Error{Keyword: "maximum"}, "/content/0/annotations/priority"},
	"embedded resource without uri": {required, "/content/0/resource"},
	"maxTokens 2.5":                 {jsonfault.Integer, "/maxTokens"},
	"progress a string":             {mistyped, "/progress"},
	"progress token missing":        {required, ""},
	"form without requestedSchema":  {required, ""},
	"url mode without url":          {required, ""},
	"task without status":           {required, ""},
	"task without ttl":              {required, ""},
	"ttl 1.5":                       {jsonfault.Integer, "/ttl"},
	"ttl a string":                  {mistyped, "/ttl"},
}

var (
	required = &jsonschema.Error{Keyword: "required"}
	mistyped = codec.ErrType
)

func TestMCPWireReportsErrorAndPointer(t *testing.T) {
	used := map[string]bool{}
	for _, g := range Groups() {
		for _, in := range g.Inputs {
			if in.Want != Refuse {
				continue
			}
			used[in.Name] = true
			want, ok := refusals[in.Name]
			if !ok {
				t.Errorf("%s: no row in refusals", in.Name)
				continue
			}
			_, err := decodeMCPWire(in, []byte(in.Doc))
			e, ok := errors.AsType[*codec.Error](err)
			if !ok {
				t.Errorf("%s: %v, want a *codec.Error", in.Name, err)
				continue
			}
			if !same(e.Err, want.err) || e.Pointer != want.pointer {
				t.Errorf("%s: %v, want %#v at %q", in.Name, err, want.err, want.pointer)
			}
		}
	}
	for name := range refusals {
		if !used[name] {
			t.Errorf("refusals has %q, but no input has that name", name)
		}
	}
}

// same reports whether err is want: by identity, but a jsonschema.Error by its
// keyword.
func same(err, want error) bool {
	switch want := want.(type) {
	case *jsonschema.Error:
		e, ok := errors.AsType[*jsonschema.Error](err)
		return ok && e.Keyword == want.Keyword
	}
	return errors.Is(err, want)
}

func TestInputNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range slices.Concat(Groups(), hostileGroups()) {
		for _, in := range g.Inputs {
			name := g.Name + ", " + in.Name
			if seen[name] {
				t.Errorf("%s: duplicate name", name)
			}
			seen[name] = true
			if strings.Contains(in.Name, "|") {
				t.Errorf("%s: a bar would end the table cell", name)
			}
		}
	}
}

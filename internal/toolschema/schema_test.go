package toolschema

import (
	"encoding/json"
	"strings"
	"testing"
)

// The error for an invalid schema has the place of the fault.
//
// Proves M-SCHEMA-03, M-SCHEMA-04.
func TestCompileReportsSchemaFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"object","properties":{"b":{"minLength":-1}}}`:         "invalid schema: /properties/b/minLength: minimum: got -1, want 0",
		`{"properties":{"a":{"type":"objekt"}}}`:                        "invalid schema: /properties/a/type: ",
		`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`:            `invalid schema: /properties/a/$ref: cannot load "file:///etc/passwd": references to other schemas are not supported`,
		`{"properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}`:          `invalid schema: /properties/a/$ref: cannot load "http://127.0.0.1:1/x": references to other schemas are not supported`,
		`{"properties":{"a":{"$ref":"other.json"}}}`:                    `invalid schema: /properties/a/$ref: cannot load "other.json": references to other schemas are not supported`,
		`{"properties":{"a":{"$ref":"#/nope"}}}`:                        `invalid schema: /properties/a/$ref: "#/nope" does not exist`,
		`{"properties":{"a":{"$ref":"#nope"}}}`:                         `invalid schema: /properties/a/$ref: "#nope" does not exist`,
		`{"$comment":"","x":[1],"$ref":"#/x/0"}`:                        `invalid schema: /$ref: "#/x/0" is not a schema: got number, want object or boolean`,
		`{"$defs":{"a":{"$anchor":"x"},"b":{"$anchor":"x"}}}`:           `invalid schema: /$defs/b/$anchor: "x" is also an anchor of another schema`,
		`{"$defs":{"a":{"$id":"x"},"b":{"$id":"x"}}}`:                   `invalid schema: /$defs/b/$id: "x" is also the address of another schema`,
		`{"$defs":{"a":{"$id":"x","$schema":"` + Dialects()[2] + `"}}}`: `invalid schema: /$defs/a/$schema: a subschema cannot have a dialect of its own`,
		`{"properties":{"a":{"pattern":"("}}}`:                          "invalid schema: /properties/a/pattern: error parsing regexp: missing closing )",
		`{"properties":{"a":{"multipleOf":1e-2000000}}}`:                "the number 1e-2000000 is out of range",
		`{"properties":{"a":{"enum":[1e999999]}}}`:                      "the number 1e999999 is out of range",
	} {
		if _, err := Compile(json.RawMessage(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// A schema may refer to the schema of a dialect, to take schemas as values.
func TestSchemaRefersToDialect(t *testing.T) {
	for _, dialect := range Dialects() {
		s, err := Compile(json.RawMessage(`{"properties":{"a":{"$ref":"` + dialect + `"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		for v, want := range map[string]string{`{"properties":{"x":{"type":"string"}}}`: "", `{"properties":{"x":{"minLength":-1}}}`: "/a/properties/x/minLength: minimum: got -1, want 0"} {
			if got := faults(t, s, `{"a":`+v+`}`); got != want {
				t.Errorf("%s: %s: got %q, want %q", dialect, v, got, want)
			}
		}
	}
}

func TestFalseSchemaAdmitsNothing(t *testing.T) {
	s, err := Compile(json.RawMessage("false"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := faults(t, s, "1"), "no value is allowed here"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCheckRejectsHugeExponents(t *testing.T) {
	s, err := Compile(json.RawMessage(`{"properties":{"a":{"minimum":0.5}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"1e401", "1e-401", "1e9223372036854775807", "1e-9223372036854775808"} {
		if got, want := faults(t, s, `{"a":`+n+`}`), "the number "+n[:min(len(n), 20)]+" is out of range"; got != want {
			t.Errorf("%s: %q, want %q", n, got, want)
		}
	}
}

func TestCheckMember(t *testing.T) {
	s, err := Compile(json.RawMessage(`{"properties":{"a":{"$ref":"#/$defs/n"},"b":{}},"$defs":{"n":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, value, want string }{{"a", "1", ""}, {"a", `"x"`, "got string, want integer"}, {"b", `"x"`, ""}, {"c", `"x"`, ""}} {
		if got, err := s.CheckMember(t.Context(), tt.name, json.RawMessage(tt.value)); got != tt.want || err != nil {
			t.Errorf("%s %s: %q, want %q (%v)", tt.name, tt.value, got, tt.want, err)
		}
	}
}

// faults returns the faults of a value.
func faults(t *testing.T, s *Schema, text string) string {
	t.Helper()
	faults, err := s.Check(t.Context(), json.RawMessage(text))
	if err != nil {
		t.Error(err)
	}
	return faults
}

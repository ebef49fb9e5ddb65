package toolschema

import (
	"encoding/json"
	"strings"
	"testing"
)

// The error for an invalid schema has the place of the fault, but not the internal address.
//
// Proves M-SCHEMA-03, M-SCHEMA-04.
func TestCompileReportsSchemaFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"object","properties":{"b":{"minLength":-1}}}`: "invalid schema: /properties/b/minLength: minimum: got -1, want 0",
		`{"properties":{"a":{"type":"objekt"}}}`:                "invalid schema: /properties/a/type: ",
		`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`:    `failing loading "file:///etc/passwd": references to other schemas are not supported`,
		`{"properties":{"a":{"$ref":"http://127.0.0.1:1/x"}}}`:  `failing loading "http://127.0.0.1:1/x": references to other schemas are not supported`,
		`{"properties":{"a":{"$ref":"other.json"}}}`:            `failing loading "other.json": references to other schemas are not supported`,
		`{"properties":{"a":{"$ref":"#/nope"}}}`:                `json-pointer in "#/nope" not found`,
		`{"properties":{"a":{"multipleOf":1e-2000000}}}`:        "the number 1e-2000000 is out of range",
		`{"properties":{"a":{"enum":[1e999999]}}}`:              "the number 1e999999 is out of range",
	} {
		if _, err := Compile(json.RawMessage(text)); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "tool:") {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
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

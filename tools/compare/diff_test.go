package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/tools/compare/probe"
)

func TestCompare(t *testing.T) {
	tests := []struct {
		name, before, after string
		want                []string
	}{
		{"the order of members does not matter", `{"a":1,"b":2}`, `{"b":2,"a":1}`, nil},
		{"a number is the same in every notation", `[60000.0,6e4,0.5,-0.0,120]`, `[6e4,60000,5e-1,0,1.2e2]`, nil},
		{"numbers are compared exactly", `[9007199254740993,0.1]`, `[9007199254740992,0.10000000000000001]`,
			[]string{"changed /0 from `9007199254740993` to `9007199254740992`", "changed /1 from `0.1` to `0.10000000000000001`"}},
		{"a number is not its text", `{"id":1}`, `{"id":"1"}`, []string{"changed /id from `1` to `\"1\"`"}},
		{"null is not absence", `{"a":null}`, `{}`, []string{"lost /a `null`"}},
		{"absence is not null", `{}`, `{"a/b":null}`, []string{"added /a~1b `null`"}},
		{"an empty list is not absent", `{"a":[]}`, `{"a":{}}`, []string{"changed /a from `[]` to `{}`"}},
		{"a list has an order and a length", `[1,2]`, `[2]`, []string{"changed /0 from `1` to `2`", "lost /1 `2`"}},
		{"a list of one is not its element", `{"c":[{"a":1}]}`, `{"c":{"a":1}}`, []string{"changed /c from `[{\"a\":1}]` to `{\"a\":1}`"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changes, err := Compare([]byte(tt.before), []byte(tt.after))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTyped(t *testing.T) {
	type block struct {
		Text string `json:"text"`
	}
	type base struct {
		Meta map[string]any `json:"_meta"`
	}
	type result struct {
		base
		Blocks   []*block `json:"content"`
		Free     []any    `json:"free"`
		Known    any      `json:"known"`
		Missing  *block   `json:"missing"`
		MIMEType string
	}
	v := &result{
		base:   base{map[string]any{"n": "x"}},
		Blocks: []*block{{"hi"}},
		Free:   []any{map[string]any{"text": "hi"}},
		Known:  &block{"hi"},
	}
	var whole any = map[string]any{"a": 1.0}
	tests := []struct {
		name    string
		value   any
		pointer string
		want    bool
	}{
		{"the whole of a struct", v, "", true},
		{"the whole of any JSON", &whole, "", false},
		{"a field of a list element", v, "/content/0/text", true},
		{"below a list of any JSON", v, "/free/0/text", false},
		{"below a struct in an interface", v, "/known/text", true},
		{"below a nil pointer", v, "/missing/text", true},
		{"in an embedded struct's map of any JSON", v, "/_meta/n", false},
		{"a field without a tag", v, "/mimeType", true},
		{"no field", v, "/task", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := probe.Typed(tt.value, tt.pointer); got != tt.want {
				t.Errorf("Typed(%q) = %v, want %v", tt.pointer, got, tt.want)
			}
		})
	}
}

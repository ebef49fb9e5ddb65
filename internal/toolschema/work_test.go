package toolschema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const tooMuch = "the check of the value takes too many steps (limit: "

// chain returns a schema in which each of n definitions applies the next one twice.
func chain(n int, keyword, last string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"object","allOf":[{"$ref":"#/$defs/d0"}],"$defs":{"d%d":%s`, n, last)
	for i := range n {
		next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		fmt.Fprintf(&b, `,"d%d":{"%s":[%s,%s]}`, i, keyword, next, next)
	}
	return b.String() + `}}`
}

// Validation of a short value against a short schema can take exponential time.
//
// Proves M-SCHEMA-05.
func TestCheckRejectsExponentialWork(t *testing.T) {
	branch := func(op string) string {
		return `{"type":"object","properties":{"op":{"const":"` + op + `"},"left":{"$ref":"#/$defs/e"},"right":{"$ref":"#/$defs/e"}}}`
	}
	expression := `{"type":"object","properties":{"e":{"$ref":"#/$defs/e"}},"$defs":{"e":{"anyOf":[{"type":"number"},` +
		branch("add") + `,` + branch("sub") + `,` + branch("mul") + `]}}}`
	nested := func(n int) string {
		return `{"e":` + strings.Repeat(`{"op":"mul","right":1,"left":`, n) + "1" + strings.Repeat("}", n) + `}`
	}
	dynamic := `{"$id":"tool:///root","$dynamicAnchor":"n","type":"object","properties":{"e":{"allOf":[{"$dynamicRef":"#n"},{"$dynamicRef":"#n"}]}}}`
	deep := strings.Repeat(`{"e":`, 100) + "{}" + strings.Repeat("}", 100)
	wide := `{"type":"object","properties":{"e":{"type":"array","items":{"allOf":[` + strings.Repeat(`{"not":{"type":"null"}},`, 999) + `{}]}}}}`
	for _, test := range []struct{ name, schema, value, want string }{
		{"a short chain", chain(5, "allOf", `{"type":"object"}`), `{}`, ""},
		{"a long chain", chain(60, "allOf", `{"type":"object"}`), `{}`, tooMuch},
		{"a chain of alternatives", chain(60, "anyOf", `{"required":["x"]}`), `{}`, tooMuch},
		{"a shallow expression", expression, nested(3), ""},
		{"a deep expression", expression, nested(40), tooMuch},
		{"dynamic references", dynamic, deep, tooMuch},
		{"recursion without branches", `{"type":"object","properties":{"e":{"$ref":"#"}}}`, deep, ""},
		{"a long list with a reference", `{"type":"object","properties":{"e":{"items":{"$ref":"#/$defs/n"}}},"$defs":{"n":{"type":"integer"}}}`,
			`{"e":[` + strings.Repeat("7,", 100_000) + `7]}`, ""},
		{"a long list of objects", `{"type":"object","properties":{"e":{"items":{"$ref":"#/$defs/n"}}},"$defs":{"n":{"required":["a"],"properties":{"a":{"type":"integer"}}}}}`,
			`{"e":[` + strings.Repeat(`{"a":1},`, 100_000) + `{"a":1}]}`, ""},
		{"a long list and many subschemas", wide, `{"e":[` + strings.Repeat("7,", 10_000) + `7]}`, tooMuch},
		{"a short list and many subschemas", wide, `{"e":[7,7,7]}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := Compile(json.RawMessage(test.schema))
			if err != nil {
				t.Fatal(err)
			}
			if got := faults(t, s, test.value); (got == "") != (test.want == "") || !strings.HasPrefix(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

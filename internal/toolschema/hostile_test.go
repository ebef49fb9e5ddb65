package toolschema

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// list joins n texts.
func list(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(parts, ",")
}

// in returns a schema for the member a.
func in(schema string) string { return `{"type":"object","properties":{"a":` + schema + `}}` }

// A schema whose compilation would take long is rejected with the limit that it exceeds.
func TestCompileRejectsLargeSchemas(t *testing.T) {
	for name, test := range map[string]struct{ schema, want string }{
		"many bytes":              {in(`{"title":"` + strings.Repeat("x", 1<<20) + `"}`), "more than 1048576 bytes"},
		"many values":             {in(`{"enum":[` + list(100_000, "%d") + `]}`), "more than 100000 values"},
		"many required names":     {`{"type":"object","required":[` + list(100_000, `"%d"`) + `]}`, "more than 100000 values"},
		"many subschemas":         {`{"type":"object","properties":{` + list(10_000, `"p%d":{}`) + `}}`, "more than 10000 objects"},
		"a long address":          {in(`{"$ref":"` + strings.Repeat("x", 5000) + `"}`), "more than 4096"},
		"addresses that add up":   {strings.Repeat(`{"$id":"`+strings.Repeat("x", 500)+`/","not":`, 10) + "{}" + strings.Repeat("}", 10), "more than 4096"},
		"a long pattern":          {in(`{"pattern":"` + strings.Repeat("a|b*", 20_000) + `"}`), "more than 65536 bytes"},
		"long patterns":           {in(`{"patternProperties":{` + list(1000, `"^`+strings.Repeat("x", 90)+`%d$":{}`) + `}}`), "more than 65536 bytes"},
		"a pattern that repeats":  {in(`{"pattern":"` + strings.Repeat("(x{1000})", 200) + `"}`), "more than 100000 instructions"},
		"a wrong pattern":         {in(`{"pattern":"` + strings.Repeat("(", 10_000) + `"}`), "invalid"},
		"a pattern beside others": {in(`{"patternProperties":{"` + strings.Repeat("(x{999})", 99) + `":{},"y{1000}(z{999})":{}}}`), "more than 100000 instructions"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(json.RawMessage(test.schema))
			if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 400 {
				t.Errorf("got %.500v, want %s", err, test.want)
			}
		})
	}
}

// The work of a compilation grows with the length of the schema, whatever its form: these would
// take minutes otherwise.
func TestCompileAcceptsUnusualSchemas(t *testing.T) {
	for name, schema := range map[string]string{
		"long pointers":   in(`{"properties":{"` + strings.Repeat("x", 500_000) + `":{"properties":{` + list(9_000, `"p%d":{}`) + `}}}}`),
		"many addresses":  `{"type":"object","properties":{` + list(9_000, `"p%d":{"$id":"x%[1]d"}`) + `}}`,
		"many references": `{"type":"object","properties":{` + list(9_000, `"p%d":{"$ref":"#/properties/q"}`) + `,"q":{}}}`,
		"a chain":         `{"type":"object","properties":{` + list(4_000, `"%d":{"$ref":"#/properties/x%[1]d","x":{"type":"object"}},"x%[1]d":true`) + `}}`,
		"compared arrays": in(`{"enum":[` + list(9_000, "[%d]") + `]}`),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Compile(json.RawMessage(schema)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The steps of a check include the length of lists and texts that a schema compares a value with.
//
// Proves M-SCHEMA-05.
func TestCheckLimitsWork(t *testing.T) {
	for name, test := range map[string]struct{ schema, value, want string }{
		"values in an enum":      {in(`{"items":{"enum":[` + list(1000, "[%d]") + `]}}`), `{"a":[` + list(20_000, "[%d]") + `]}`, "/a/1000: 'enum' failed"},
		"a match":                {in(`{"pattern":"` + strings.Repeat("(x?y?)", 1000) + `z"}`), `{"a":"` + strings.Repeat("xy", 50_000) + `"}`, tooMuch},
		"a match of a name":      {`{"patternProperties":{` + list(300, `"^(a|b)*%d$":{}`) + `}}`, `{` + list(20_000, `"abababababababababab%d":1`) + `}`, tooMuch},
		"many short matches":     {in(`{"items":{"pattern":"^(x?y?){1000}$"}}`), `{"a":[` + strings.Repeat(`"xyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxyxy",`, 10_000) + `""]}`, tooMuch},
		"names that must exist":  {in(`{"items":{"not":{"anyOf":[` + strings.Repeat(`{"required":[`+list(90, `"%d"`)+`,"x"]},`, 500) + `false]}}}`), `{"a":[` + strings.Repeat(`{`+list(90, `"%d":0`)+`},`, 500) + `{}]}`, tooMuch},
		"different elements":     {in(`{"uniqueItems":true}`), `{"a":[` + list(50_000, `{"k":[%d]}`) + `]}`, ""},
		"elements of one length": {in(`{"uniqueItems":true}`), `{"a":[["a","b","c"],["a\u0004b","c"],["a","b\u0004c"],["a\u0004b\u0004c"]]}`, ""},
		"the same elements":      {in(`{"uniqueItems":true}`), `{"a":[{"k":[1],"l":2},{"l":2.0,"k":[10e-1]}]}`, "/a: items at 0 and 1 are equal"},
		"texts at every level":   {in(`{"$ref":"#/$defs/t"}`)[:len(in(`{"$ref":"#/$defs/t"}`))-1] + `,"$defs":{"t":{"allOf":[` + strings.Repeat(`{"minLength":1},`, 900) + `{}]}}}`, `{"a":"` + strings.Repeat("x", 500_000) + `"}`, tooMuch},
		"large fractions":        {in(`{"items":{"allOf":[` + strings.Repeat(`{"minimum":1e-399},`, 20) + `{}]}}`), `{"a":[` + strings.Repeat("1e-399,", 10_000) + `1]}`, tooMuch},
		"large quotients":        {in(`{"items":{"allOf":[` + strings.Repeat(`{"multipleOf":1e-399},`, 20) + `{}]}}`), `{"a":[` + strings.Repeat("1e-399,", 3_000) + `1]}`, tooMuch},
		"a reference to itself":  {`{"type":"object","allOf":[{"$ref":"#"}]}`, `{}`, errCycle.Error()},
		"many faults":            {in(`{"items":{"type":"string"}}`), `{"a":[` + list(300_000, "%d") + `]}`, "and more"},
		"a pattern as a value":   {`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"format":"regex"}}}`, `{"a":"` + strings.Repeat("a|b*", 20_000) + `"}`, "more than 65536 bytes"},
		"faults of alternatives": {in(`{"items":{"anyOf":[{"enum":[` + list(5000, `"%d"`) + `]},{"type":"integer"}]}}`), `{"a":[` + list(50_000, "%d") + `]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(json.RawMessage(test.schema))
			if err != nil {
				t.Fatal(err)
			}
			got := faults(t, s, test.value)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %.500q, want %q", got, test.want)
			}
			if n := strings.Count(got, "\n"); n > maxFaults || len(got) > (maxFaults+1)*(maxLine+4) {
				t.Errorf("%d lines, %d bytes", n+1, len(got))
			}
		})
	}
}

// The end of the context ends a check, also during the match of a long text.
func TestCheckEndsWithContext(t *testing.T) {
	for name, test := range map[string]struct{ schema, value string }{
		"many elements": {in(`{"items":{"oneOf":[{"type":"integer"},{"type":"string"}]}}`), `{"a":[` + list(10_000, "%d") + `]}`},
		"a long match":  {in(`{"minProperties":0,"pattern":"x(y?z?)*$"}`), `{"a":"` + strings.Repeat("xyz", 100_000) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(json.RawMessage(test.schema))
			if err != nil {
				t.Fatal(err)
			}
			if got := faults(t, s, test.value); got != "" {
				t.Errorf("got %s", got)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if got, err := s.Check(ctx, json.RawMessage(test.value)); err != context.Canceled {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	for name, test := range map[string]struct{ schema, value string }{
		"plain":      {`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}`, `{"city":"Berlin","days":3}`},
		"keywords":   {`{"type":"object","properties":{"unit":{"anyOf":[{"enum":["c","f"]},{"type":"null"}]},"tags":{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^[a-z]+$"}},"p":{"$ref":"#/$defs/p"}},"$defs":{"p":{"type":"object","properties":{"x":{"type":"number","minimum":-90.5},"y":{"type":"number"}},"required":["x","y"],"additionalProperties":false}}}`, `{"unit":"c","tags":["a","b","cd"],"p":{"x":1.5,"y":2}}`},
		"invalid":    {`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}`, `{"days":"3"}`},
		"long table": {`{"type":"object","properties":{"rows":{"type":"array","items":{"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"v":{"type":"integer"}},"required":["k","v"]},{"type":"object","properties":{"k":{"const":"b"},"t":{"type":"string"}},"required":["k","t"]}]}}}}`, `{"rows":[` + strings.Repeat(`{"k":"a","v":1},{"k":"b","t":"x"},`, 1000) + `{"k":"a","v":1}]}`},
	} {
		b.Run(name, func(b *testing.B) {
			s, err := Compile(json.RawMessage(test.schema))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			ctx := b.Context()
			for b.Loop() {
				s.Check(ctx, json.RawMessage(test.value))
			}
		})
	}
}

// No schema makes Compile panic, and no value Check.
func FuzzCompile(f *testing.F) {
	for _, draft := range []string{"04", "06", "07", "2019-09", "2020-12"} {
		for seed := range uint64(20) {
			m := maker{rand.New(rand.NewPCG(seed, 10)), draft}
			f.Add(m.root(), m.value(4))
		}
	}
	f.Add(`{"$id":"x","$ref":"#a","$defs":{"a":{"$anchor":"a","$dynamicRef":"#/$defs/b/0"},"b":[{"$id":"y","$recursiveRef":"#"}]}}`, "1")
	f.Fuzz(func(t *testing.T, schema, v string) {
		s, err := Compile(json.RawMessage(schema))
		if err != nil {
			return
		}
		if _, err := s.Check(t.Context(), json.RawMessage(v)); err != nil {
			t.Error(err)
		}
	})
}

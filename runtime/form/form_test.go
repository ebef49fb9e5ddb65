package form_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/doubling"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/form"
)

// schema has a field of every kind.
const schema = `{"type":"object","required":["user","size","ghost"],"properties":{
	"size":{"type":"integer","title":"Size","description":"in metres","minimum":1,"maximum":9,"default":3},
	"user":{"type":"string","minLength":2,"maxLength":4,"pattern":"^[a-zä]+$","default":"ann"},
	"ratio":{"type":"number","default":0.5},
	"really":{"type":"boolean","default":false},
	"mail":{"type":"string","format":"email"},
	"link":{"type":"string","format":"uri"},
	"day":{"type":"string","format":"date"},
	"moment":{"type":"string","format":"date-time"},
	"colour":{"type":"string","enum":["r","g"],"default":"g"},
	"shade":{"type":"string","oneOf":[{"const":"l","title":"Light"},{"const":"d","title":"Dark"}],"default":"d"},
	"old":{"type":"string","enum":["a","b"],"enumNames":["First","Second"]},
	"days":{"type":"array","items":{"type":"string","enum":["mo","tu","we"]},"minItems":1,"maxItems":2,"default":["mo"]},
	"tags":{"type":"array","items":{"anyOf":[{"const":"x","title":"Ex"},{"const":"y","title":"Why"}]}},
	"future":{"type":"colour"}
}}`

func read(t *testing.T, text string) *mcp.ElicitRequestFormParamsRequestedSchema {
	t.Helper()
	s := new(mcp.ElicitRequestFormParamsRequestedSchema)
	if err := codec.Unmarshal([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func field(t *testing.T, s *mcp.ElicitRequestFormParamsRequestedSchema, name string) form.Field {
	t.Helper()
	for _, f := range form.Fields(s) {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no field %q", name)
	return form.Field{}
}

// Proves ELIC-05.
func TestFieldsReturnsEveryKind(t *testing.T) {
	of := func(v any) form.Value {
		x, err := form.Of(v)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	want := []form.Field{
		{Name: "user", Title: "user", Required: true, Kind: form.Text, Default: of("ann")},
		{Name: "size", Title: "Size", Description: "in metres", Required: true, Kind: form.Integer, Default: of(3)},
		{Name: "colour", Title: "colour", Kind: form.Choice, Options: []form.Option{{"r", "r"}, {"g", "g"}}, Default: of("g")},
		{Name: "day", Title: "day", Kind: form.Text, Format: "date"},
		{Name: "days", Title: "days", Kind: form.Choices, Options: []form.Option{{"mo", "mo"}, {"tu", "tu"}, {"we", "we"}}, Default: of([]string{"mo"})},
		{Name: "future", Title: "future"},
		{Name: "link", Title: "link", Kind: form.Text, Format: "uri"},
		{Name: "mail", Title: "mail", Kind: form.Text, Format: "email"},
		{Name: "moment", Title: "moment", Kind: form.Text, Format: "date-time"},
		{Name: "old", Title: "old", Kind: form.Choice, Options: []form.Option{{"a", "First"}, {"b", "Second"}}},
		{Name: "ratio", Title: "ratio", Kind: form.Number, Default: of(0.5)},
		{Name: "really", Title: "really", Kind: form.Bool, Default: of(false)},
		{Name: "shade", Title: "shade", Kind: form.Choice, Options: []form.Option{{"l", "Light"}, {"d", "Dark"}}, Default: of("d")},
		{Name: "tags", Title: "tags", Kind: form.Choices, Options: []form.Option{{"x", "Ex"}, {"y", "Why"}}},
	}
	if diff := cmp.Diff(want, form.Fields(read(t, schema)), cmpopts.IgnoreUnexported(form.Field{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Proves ELIC-05, ELIC-17.
func TestCheckReportsEveryFault(t *testing.T) {
	for _, test := range []struct{ name, content, want string }{
		{"valid", `{"user":"bob","size":2,"ghost":true,"tags":["x","y"],"future":"any","other":1}`, ""},
		{"a fraction of zero is an integer", `{"user":"bob","size":2.0,"ghost":true}`, ""},
		{"characters are counted, not bytes", `{"user":"ääää","size":2,"ghost":true}`, ""},
		{"empty", `{}`, "user: is required|size: is required|ghost: is required"},
		{"types", `{"user":1,"size":"2","ghost":0,"ratio":true,"really":"yes","days":"mo","colour":["r"]}`,
			"user: must be a string|size: must be a number|colour: must be one of r, g|days: must be a list|ratio: must be a number|really: must be true or false"},
		{"lengths", `{"user":"a","size":2,"ghost":0}`, "user: must have at least 2 characters"},
		{"lengths", `{"user":"abcde","size":2,"ghost":0}`, "user: must have at most 4 characters"},
		{"pattern", `{"user":"AB","size":2,"ghost":0}`, "user: must match ^[a-zä]+$"},
		{"numbers", `{"user":"bob","size":2.5,"ghost":0}`, "size: must be a whole number"},
		{"numbers", `{"user":"bob","size":0,"ghost":0}`, "size: must be at least 1"},
		{"numbers", `{"user":"bob","size":10,"ghost":0}`, "size: must be at most 9"},
		{"numbers", `{"user":"bob","size":1e999,"ghost":0}`, "size: is out of range"},
		{"formats", `{"user":"bob","size":1,"ghost":0,"mail":"x","link":"x","day":"2025-13-01","moment":"2025-01-01"}`,
			"day: must be in the format date|link: must be in the format uri|mail: must be in the format email|moment: must be in the format date-time"},
		{"valid formats", `{"user":"bob","size":1,"ghost":0,"mail":"x@y.z","link":"https://x","day":"2025-12-01","moment":"2025-01-01t00:00:00z"}`, ""},
		{"options", `{"user":"bob","size":1,"ghost":0,"colour":"b","shade":"Dark","old":"First"}`,
			"colour: must be one of r, g|old: must be one of a, b|shade: must be one of l, d"},
		{"several options", `{"user":"bob","size":1,"ghost":0,"days":[],"tags":["z"]}`, `days: must have at least 1 of the options|tags: "z" is not one of x, y`},
		{"several options", `{"user":"bob","size":1,"ghost":0,"days":["mo","tu","we"]}`, "days: must have at most 2 of the options"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var answer mcp.ElicitResult
			if err := codec.Unmarshal([]byte(`{"action":"accept","content":`+test.content+`}`), &answer); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := form.Check(read(t, schema), answer.Content); err != nil {
				got = strings.ReplaceAll(err.Error(), "\n", "|")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	broken := read(t, `{"type":"object","properties":{"x":{"type":"string","pattern":"(?=lookahead)"}}}`)
	if err := form.Check(broken, map[string]form.Value{"x": must(form.Of("y"))}); err != nil {
		t.Errorf("a pattern that regexp cannot compile was applied: %v", err)
	}
}

func must(v form.Value, err error) form.Value {
	if err != nil {
		panic(err)
	}
	return v
}

// Proves ELIC-05.
func TestCheckAppliesFormatsAndBounds(t *testing.T) {
	for _, test := range []struct {
		schema, value string
		ok            bool
	}{
		{`"type":"string","format":"date-time"`, `"2024-01-01T00:00:00.5Z"`, true},
		{`"type":"string","format":"date-time"`, `"2024-01-01t00:00:00+05:30"`, true},
		{`"type":"string","format":"date-time"`, `"2016-12-31T23:59:60Z"`, true},
		{`"type":"string","format":"date-time"`, `"2017-01-01T00:59:60+01:00"`, true},
		{`"type":"string","format":"date-time"`, `"2016-12-30T23:59:60Z"`, false},
		{`"type":"string","format":"date-time"`, `"2024-01-01T00:00:00,5Z"`, false},
		{`"type":"string","format":"date-time"`, `"2024-01-01T0:00:00Z"`, false},
		{`"type":"string","format":"date-time"`, `"2024-01-01T00:00:00+24:00"`, false},
		{`"type":"string","format":"date-time"`, `"2024-02-30T00:00:00Z"`, false},
		{`"type":"string","format":"uri"`, `"urn:isbn:1"`, true},
		{`"type":"string","format":"uri"`, `"a:b c"`, false},
		{`"type":"string","format":"uri"`, `"http://x/\u0000"`, false},
		{`"type":"string","format":"uri"`, `"http://x/<>"`, false},
		{`"type":"integer","maximum":9007199254740992`, `9007199254740992`, true},
		{`"type":"integer","maximum":9007199254740992`, `9007199254740993`, false},
		{`"type":"integer","minimum":-9007199254740992`, `-9007199254740993`, false},
		{`"type":"integer"`, `9007199254740993.5`, false},
		{`"type":"integer"`, `12e1`, true},
		{`"type":"integer"`, `1e-2147483648`, false},
		{`"type":"integer"`, `0e-2147483648`, true},
		{`"type":"number"`, strings.Repeat("9", 2000) + "e-1990", false},
	} {
		s := read(t, `{"type":"object","properties":{"x":{`+test.schema+`}}}`)
		var answer mcp.ElicitResult
		if err := codec.Unmarshal([]byte(`{"action":"accept","content":{"x":`+test.value+`}}`), &answer); err != nil {
			t.Fatal(err)
		}
		if err := form.Check(s, answer.Content); (err == nil) != test.ok {
			t.Errorf("%s, %.40s: %v", test.schema, test.value, err)
		}
	}
}

func TestParseReadsFormattedOptions(t *testing.T) {
	options := []string{"a", "b, c", " d ", `"e"`, `f"`, "2", "", "g,"}
	text, err := json.Marshal(options)
	if err != nil {
		t.Fatal(err)
	}
	s := read(t, `{"type":"object","properties":{"one":{"type":"string","enum":`+string(text)+`},"many":{"type":"array","items":{"type":"string","enum":`+string(text)+`}}}}`)
	for i, option := range options {
		one, many := field(t, s, "one"), field(t, s, "many")
		v := must(form.Of(option))
		if got, err := one.Parse(form.Format(v)); err != nil || !cmp.Equal(v, got) {
			t.Errorf("%q is read as %v, %v", form.Format(v), got, err)
		}
		for j := range options {
			v := must(form.Of([]string{option, options[j]}))
			if got, err := many.Parse(form.Format(v)); err != nil || !cmp.Equal(v, got) {
				t.Errorf("%d, %d: %q is read as %v, %v", i, j, form.Format(v), got, err)
			}
		}
	}
}

func TestNilSchemaAndValuesDoNotPanic(t *testing.T) {
	if len(form.Fields(nil)) != 0 || form.Check(nil, nil) != nil || len(form.Fill(nil, nil)) != 0 {
		t.Error("a nil schema has fields")
	}
	s := read(t, schema)
	for _, v := range []form.Value{nil, (*mcp.ElicitResultContentValueScalar)(nil), (*mcp.ElicitResultContentValueList)(nil)} {
		if form.Format(v) != "" {
			t.Errorf("Format(%T(nil)) = %q", v, form.Format(v))
		}
		for _, f := range form.Fields(s) {
			if form.Accept(&f, v) == nil {
				t.Errorf("field %s accepts a nil %T", f.Name, v)
			}
		}
	}
}

func TestFillLeavesOutClearedFields(t *testing.T) {
	filled := form.Fill(read(t, schema), map[string]form.Value{"colour": nil})
	if v, ok := filled["colour"]; ok || filled["shade"] == nil {
		t.Errorf("colour is %v, shade is %v", v, filled["shade"])
	}
}

// Proves ELIC-06.
func TestFillSetsDefaultsOfAbsentFields(t *testing.T) {
	given := map[string]form.Value{"user": must(form.Of("eve"))}
	filled := form.Fill(read(t, schema), given)
	got := map[string]string{}
	for name, v := range filled {
		text, err := codec.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = string(text)
	}
	want := map[string]string{
		"user": `"eve"`, "size": "3", "ratio": "0.5", "really": "false", "colour": `"g"`, "shade": `"d"`, "days": `["mo"]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(given) != 1 {
		t.Errorf("Fill changed its argument: %v", given)
	}
}

func TestParseReadsUserInput(t *testing.T) {
	s := read(t, schema)
	for _, test := range []struct{ field, input, want string }{
		{"user", "bob", `"bob"`},
		{"user", "x", "! must have at least 2 characters"},
		{"size", " 4 ", `4`},
		{"size", "four", `! "four" is not a number`},
		{"size", "10", "! must be at most 9"},
		{"really", "Y", "true"},
		{"really", "no", "false"},
		{"really", "maybe", `! "maybe" is neither yes nor no`},
		{"shade", "l", `"l"`},
		{"shade", "dark", `"d"`},
		{"shade", "2", `"d"`},
		{"shade", "3", "! must be one of l, d"},
		{"days", "mo, 3", `["mo","we"]`},
		{"days", "", "! must have at least 1 of the options"},
		{"tags", "why,ex", `["y","x"]`},
	} {
		f := field(t, s, test.field)
		got := ""
		v, err := f.Parse(test.input)
		if err != nil {
			got = "! " + err.Error()
		} else if text, err := codec.Marshal(v); err == nil {
			got = string(text)
			if again, err := f.Parse(form.Format(v)); err != nil || !cmp.Equal(v, again) {
				t.Errorf("%s: %s is formatted as %q, which is read as %v, %v", test.field, got, form.Format(v), again, err)
			}
		}
		if got != test.want {
			t.Errorf("%s: %q is read as %s, want %s", test.field, test.input, got, test.want)
		}
	}
}

func TestOfConvertsSupportedTypes(t *testing.T) {
	got := map[string]form.Value{}
	for name, v := range map[string]any{"s": "x", "b": true, "i": 1, "l": int64(2), "f": 1.5, "whole": 3.0, "many": []string{"x"}, "none": []string(nil)} {
		got[name] = must(form.Of(v))
	}
	got["again"] = must(form.Of(got["s"]))
	text, err := codec.Marshal(&mcp.ElicitResult{Action: mcp.ElicitActionAccept, Content: got})
	if err != nil {
		t.Fatal(err)
	}
	var answer struct{ Content map[string]any }
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"s": "x", "b": true, "i": 1.0, "l": 2.0, "f": 1.5, "whole": 3.0, "many": []any{"x"}, "none": []any{}, "again": "x"}
	if diff := cmp.Diff(want, maps.Clone(answer.Content)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := form.Of(map[string]any{}); err == nil {
		t.Error("an object was accepted as the value of a field")
	}
}

func TestFieldsTakesLinearTime(t *testing.T) {
	doubling.Check(t, func(n int) func() {
		s := &mcp.ElicitRequestFormParamsRequestedSchema{Properties: map[string]mcp.PrimitiveSchemaDefinition{}}
		for i := range n {
			name := fmt.Sprintf("field%06d", i)
			s.Required = append(s.Required, name)
			s.Properties[name] = &mcp.BooleanSchema{}
		}
		return func() {
			if got := len(form.Fields(s)); got != n {
				t.Fatalf("got %d fields, want %d", got, n)
			}
		}
	})
}

// A form of a server may have very many options and, as its defaults, very many values. Its check
// takes time in proportion to their number.
func TestCheckOfManyChoicesIsLinear(t *testing.T) {
	doubling.Check(t, func(n int) func() {
		n *= 10
		options := make([]string, n)
		for i := range options {
			options[i] = fmt.Sprintf("option-%08d", i)
		}
		s := &mcp.ElicitRequestFormParamsRequestedSchema{Properties: map[string]mcp.PrimitiveSchemaDefinition{"x": &mcp.UntitledMultiSelectEnumSchema{
			Items: mcp.UntitledMultiSelectEnumSchemaItems{Enum: options}, Default: slices.Repeat(options[n-1:], n),
		}}}
		return func() {
			if err := form.Check(s, form.Fill(s, nil)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// The patterns of a form are a server's choice, too.
func TestCheckLimitsPatterns(t *testing.T) {
	text := `{"type":"object","properties":{"a":{"type":"string","pattern":"^(x?y?){1000}$"},"b":{"type":"string","pattern":"(` + strings.Repeat("x{1000}|", 100) + `y)"}}}`
	var s mcp.ElicitRequestFormParamsRequestedSchema
	if err := codec.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{"xyxy": "", "xyz": "must match", strings.Repeat("xy", 10_000): "is too long to be checked"} {
		v, err := form.Of(value)
		if err != nil {
			t.Fatal(err)
		}
		err = form.Check(&s, map[string]form.Value{"a": v, "b": v})
		if got := fmt.Sprint(err); (err == nil) != (want == "") || want != "" && (!strings.Contains(got, want) || strings.Contains(got, "b ")) {
			t.Errorf("%.20s: got %v, want %q", value, err, want)
		}
	}
}

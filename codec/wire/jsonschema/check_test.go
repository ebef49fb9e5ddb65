package jsonschema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// fault has the parts of a fault that tests compare.
type fault struct {
	Pointer string
	Offset  int64
	Message string
}

// check returns the faults of text against the node at the end of nodes. It inserts the nodes Any
// and None before nodes.
func check(t *testing.T, nodes []jsonschema.Node, text string, opts ...codec.Option) []fault {
	t.Helper()
	nodes = append([]jsonschema.Node{{}, {Types: jsonschema.Never}}, nodes...)
	table := &jsonschema.Table{Nodes: nodes}
	err := table.Check(int32(len(nodes)-1), []byte(text), opts...)
	if err == nil {
		return nil
	}
	faults, ok := err.(jsonschema.Faults)
	if !ok || len(faults) == 0 {
		t.Fatalf("%s: want Faults, got %T %v", text, err, err)
	}
	out := make([]fault, len(faults))
	for i, f := range faults {
		out[i] = fault{f.Pointer, f.Offset, f.Err.Error()}
		line, column := codec.Position([]byte(text), int(f.Offset))
		if f.Line != line || f.Column != column {
			t.Errorf("%s: fault at %d:%d, want %d:%d", text, f.Line, f.Column, line, column)
		}
	}
	return out
}

// Each keyword alone: the values that it admits, and the faults of others.
func TestCheckKeywords(t *testing.T) {
	one := func(n jsonschema.Node) []jsonschema.Node { return []jsonschema.Node{n} }
	bound := func(k jsonschema.Keyword, limit string) []jsonschema.Node {
		return one(jsonschema.Node{Bounds: []jsonschema.Bound{{Keyword: k, Limit: limit}}})
	}
	str := jsonschema.Node{Types: jsonschema.String}
	for _, test := range []struct {
		name   string
		nodes  []jsonschema.Node
		admits []string
		faults map[string][]fault
	}{
		{
			name:   "no keyword admits every value",
			nodes:  one(jsonschema.Node{}),
			admits: []string{`null`, ` true `, `1e400`, `""`, `[1,[2]]`, `{"a":{"b":{}}}`},
		}, {
			name:  "no value is admitted",
			nodes: one(jsonschema.Node{Types: jsonschema.Never}),
			faults: map[string][]fault{
				` null`: {{"", 1, "no value is allowed here"}},
			},
		}, {
			name:   "one type",
			nodes:  one(str),
			admits: []string{`""`, `"a"`},
			faults: map[string][]fault{
				`null`: {{"", 0, "want string, got null"}}, `false`: {{"", 0, "want string, got boolean"}},
				`-1`: {{"", 0, "want string, got number"}}, `[]`: {{"", 0, "want string, got array"}}, `{}`: {{"", 0, "want string, got object"}},
			},
		}, {
			name:   "several types",
			nodes:  one(jsonschema.Node{Types: jsonschema.Null | jsonschema.Integer | jsonschema.Bool}),
			admits: []string{`null`, `true`, `0`},
			faults: map[string][]fault{
				`"5"`: {{"", 0, "want integer or boolean or null, got string"}},
				`1.5`: {{"", 0, "number is not an integer"}},
			},
		}, {
			name:  "integer depends on the value, not on its notation",
			nodes: one(jsonschema.Node{Types: jsonschema.Integer}),
			admits: []string{
				`0`, `-0`, `0.0`, `-0.000e-5`, `60000.0`, `6e4`, `1.5e1`, `150e-1`, `1e400`, `1E+99999999999999999999`, `0e-99999999999999999999`,
				`9007199254740993`, `123456789012345678901234567890`,
			},
			faults: map[string][]fault{
				`1.5`: {{"", 0, "number is not an integer"}}, `15e-1`: {{"", 0, "number is not an integer"}},
				`1e-99999999999999999999`: {{"", 0, "number is not an integer"}}, `9007199254740993.5`: {{"", 0, "number is not an integer"}},
				`10.01e1`: {{"", 0, "number is not an integer"}}, `"1"`: {{"", 0, "want integer, got string"}},
			},
		}, {
			name:   "number",
			nodes:  one(jsonschema.Node{Types: jsonschema.Number}),
			admits: []string{`1`, `1.5`, `1e-400`},
			faults: map[string][]fault{`"1"`: {{"", 0, "want number, got string"}}},
		}, {
			name:   "const",
			nodes:  one(jsonschema.Node{Enum: []string{`"2.0"`}}),
			admits: []string{`"2.0"`, `"\u0032.0"`},
			faults: map[string][]fault{
				`"1.0"`: {{"", 0, `"1.0" is not "2.0"`}}, `2.0`: {{"", 0, `2.0 is not "2.0"`}}, `["2.0"]`: {{"", 0, `array is not "2.0"`}},
				`"` + strings.Repeat("é", 40) + `"`: {{"", 0, `"` + strings.Repeat("é", 29) + `… is not "2.0"`}},
			},
		}, {
			name:   "enum",
			nodes:  one(jsonschema.Node{Enum: []string{`"working"`, `"a\nb"`, `null`, `1`, `[1,{"a":2}]`}}),
			admits: []string{`"working"`, `"\u0077orking"`, `"a\u000ab"`, `null`, `1`, `1.0`, `10e-1`, `[ 1.0 , { "\u0061" : 2 } ]`},
			faults: map[string][]fault{
				`"bogus"`: {{"", 0, `"bogus" is not one of "working", "a\nb", null, 1, [1,{"a":2}]`}},
				`2`:       {{"", 0, `2 is not one of "working", "a\nb", null, 1, [1,{"a":2}]`}},
				`[1]`:     {{"", 0, `array is not one of "working", "a\nb", null, 1, [1,{"a":2}]`}},
			},
		}, {
			name:   "the list of a long enum is shortened",
			nodes:  one(jsonschema.Node{Enum: strings.Split("1,2,3,4,5,6,7,8,9,10,11,12,13,14", ",")}),
			admits: []string{`14`},
			faults: map[string][]fault{`0`: {{"", 0, "0 is not one of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 2 more"}}},
		}, {
			name:   "minimum",
			nodes:  bound(jsonschema.Minimum, "-9007199254740991"),
			admits: []string{`-9007199254740991`, `-9007199254740991.0`, `-90071992547409910e-1`, `0`, `"text"`, `null`},
			faults: map[string][]fault{
				`-9007199254740992`:    {{"", 0, "-9007199254740992 is less than -9007199254740991"}},
				`-9007199254740991.01`: {{"", 0, "-9007199254740991.01 is less than -9007199254740991"}},
				`-1e16`:                {{"", 0, "-1e16 is less than -9007199254740991"}},
			},
		}, {
			name:   "maximum",
			nodes:  bound(jsonschema.Maximum, "0.5"),
			admits: []string{`0.5`, `5e-1`, `0.500`, `-7`, `1e-400`},
			faults: map[string][]fault{
				`0.50000000000000000000001`: {{"", 0, "0.50000000000000000000001 is more than 0.5"}}, `1e400`: {{"", 0, "1e400 is more than 0.5"}},
			},
		}, {
			name:   "exclusiveMinimum",
			nodes:  bound(jsonschema.ExclusiveMinimum, "0"),
			admits: []string{`1e-400`, `1`},
			faults: map[string][]fault{`0`: {{"", 0, "0 is not more than 0"}}, `-0.0`: {{"", 0, "-0.0 is not more than 0"}}},
		}, {
			name:   "exclusiveMaximum",
			nodes:  bound(jsonschema.ExclusiveMaximum, "1e3"),
			admits: []string{`999.999`, `-1e3`},
			faults: map[string][]fault{`1000`: {{"", 0, "1000 is not less than 1e3"}}},
		}, {
			name:   "minLength counts code points",
			nodes:  bound(jsonschema.MinLength, "2"),
			admits: []string{`"ab"`, `"é😀"`, `"\n\""`, `5`},
			faults: map[string][]fault{
				`"\ud83d\ude00"`: {{"", 0, "1 character, want at least 2"}}, `""`: {{"", 0, "0 characters, want at least 2"}},
			},
		}, {
			name:   "maxLength counts code points",
			nodes:  bound(jsonschema.MaxLength, "1"),
			admits: []string{`""`, `"😀"`, `"\ud83d\ude00"`, `"\\"`},
			faults: map[string][]fault{`"e\u0301"`: {{"", 0, "2 characters, want at most 1"}}},
		}, {
			name:   "items",
			nodes:  []jsonschema.Node{str, {Items: 2}},
			admits: []string{`[]`, `["a","b"]`, `{"a":1}`, `5`},
			faults: map[string][]fault{
				`["a", 1,"b",null]`: {{"/1", 6, "want string, got number"}, {"/3", 12, "want string, got null"}},
			},
		}, {
			name:   "minItems and maxItems",
			nodes:  one(jsonschema.Node{Bounds: []jsonschema.Bound{{Keyword: jsonschema.MinItems, Limit: "1"}, {Keyword: jsonschema.MaxItems, Limit: "2"}}}),
			admits: []string{`[1]`, `[1,[2,3,4]]`, `"abc"`, `{}`},
			faults: map[string][]fault{
				`[]`: {{"", 0, "0 items, want at least 1"}}, `[1,2,3]`: {{"", 0, "3 items, want at most 2"}},
			},
		}, {
			name: "properties and required",
			nodes: []jsonschema.Node{str, {Props: []jsonschema.Prop{
				{Name: "a", Node: 2, Required: true}, {Name: "b", Node: 2}, {Name: "c", Required: true}, {Name: "~/é\"", Node: 2},
			}}},
			admits: []string{`{"a":"","c":null}`, `{"c":1,"z":[],"\u0061":""}`, `[]`},
			faults: map[string][]fault{
				`{}`:                             {{"", 0, `required member "a" is missing`}, {"", 0, `required member "c" is missing`}},
				` {"b":1,"c":2}`:                 {{"", 1, `required member "a" is missing`}, {"/b", 6, "want string, got number"}},
				`{"\u0061":1, "c":2}`:            {{"/a", 10, "want string, got number"}},
				"{\"a\":\"\",\n\"c\":1,\"b\":2}": {{"/b", 19, "want string, got number"}},
				`{"a":"","c":0,"~\/\u00e9\"":0}`: {{`/~0~1é"`, 28, "want string, got number"}},
			},
		}, {
			name:   "additionalProperties with a schema",
			nodes:  []jsonschema.Node{str, {Props: []jsonschema.Prop{{Name: "a"}}, Rest: 2}},
			admits: []string{`{}`, `{"a":1,"b":""}`},
			faults: map[string][]fault{`{"a":1,"b":2}`: {{"/b", 11, "want string, got number"}}},
		}, {
			name:   "additionalProperties: false",
			nodes:  one(jsonschema.Node{Props: []jsonschema.Prop{{Name: "a"}}, Rest: jsonschema.None}),
			admits: []string{`{}`, `{"a":1}`},
			faults: map[string][]fault{
				`{"b":{"c":2},"a":1, "d":3}`: {{"/b", 1, `member "b" is not allowed`}, {"/d", 20, `member "d" is not allowed`}},
			},
		}, {
			name:   "a property that admits no value",
			nodes:  one(jsonschema.Node{Props: []jsonschema.Prop{{Name: "a", Node: jsonschema.None}}}),
			admits: []string{`{}`, `{"b":1}`},
			faults: map[string][]fault{`{"a":1}`: {{"/a", 5, "no value is allowed here"}}},
		}, {
			name:   "propertyNames",
			nodes:  []jsonschema.Node{{Bounds: []jsonschema.Bound{{Keyword: jsonschema.MaxLength, Limit: "1"}}}, {Names: 2}},
			admits: []string{`{}`, `{"a":"abc","é":[]}`},
			faults: map[string][]fault{`{"ab":"c"}`: {{"/ab", 1, "2 characters, want at most 1"}}},
		}, {
			name:   "not",
			nodes:  []jsonschema.Node{str, {Not: 2}},
			admits: []string{`1`, `null`},
			faults: map[string][]fault{`"a"`: {{"", 0, "the schema excludes this value"}}},
		}, {
			name:   "allOf, a fault found twice is reported once",
			nodes:  []jsonschema.Node{{Types: jsonschema.Object, Props: []jsonschema.Prop{{Name: "a", Required: true}}}, {Props: []jsonschema.Prop{{Name: "a", Required: true}, {Name: "b", Required: true}}}, {All: []int32{2, 3}}},
			admits: []string{`{"a":1,"b":2}`},
			faults: map[string][]fault{
				`{}`: {{"", 0, `required member "a" is missing`}, {"", 0, `required member "b" is missing`}},
				`1`:  {{"", 0, "want object, got number"}},
			},
		}, {
			name:   "recursion",
			nodes:  []jsonschema.Node{str, {Types: jsonschema.Object, Props: []jsonschema.Prop{{Name: "k", Node: 3}, {Name: "v", Node: 2, Required: true}}, Rest: 3}},
			admits: []string{`{"v":"","k":{"v":"","x":{"v":""}}}`},
			faults: map[string][]fault{
				`{"v":"","k":{"v":"","x":{"v":1}}}`: {{"/k/x/v", 29, "want string, got number"}},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, text := range test.admits {
				if faults := check(t, test.nodes, text); faults != nil {
					t.Errorf("%s: %v", text, faults)
				}
			}
			for text, want := range test.faults {
				if diff := cmp.Diff(want, check(t, test.nodes, text)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", text, diff)
				}
			}
		})
	}
}

// Faults inside of a union are those of the variant that the value is most likely meant to be.
func TestCheckUnions(t *testing.T) {
	str := jsonschema.Node{Types: jsonschema.String}
	anyOf := func(tag string, variants ...jsonschema.Variant) jsonschema.Node {
		return jsonschema.Node{Union: variants, Tag: tag}
	}
	oneOf := func(variants ...jsonschema.Variant) jsonschema.Node {
		return jsonschema.Node{Union: variants, Exact: true}
	}
	object := func(props ...jsonschema.Prop) jsonschema.Node {
		return jsonschema.Node{Types: jsonschema.Object, Props: props}
	}
	constant := func(text string) jsonschema.Node {
		return jsonschema.Node{Types: jsonschema.String, Enum: []string{text}}
	}

	content := []jsonschema.Node{
		str, constant(`"text"`), constant(`"image"`), // 2, 3, 4
		object(jsonschema.Prop{Name: "text", Node: 2, Required: true}, jsonschema.Prop{Name: "type", Node: 3, Required: true}),
		object(jsonschema.Prop{Name: "data", Node: 2, Required: true}, jsonschema.Prop{Name: "type", Node: 4, Required: true}),
		{Types: jsonschema.Array, Items: 8},
		anyOf("type", jsonschema.Variant{Node: 5, Kinds: jsonschema.Object, Tags: []string{`"text"`}},
			jsonschema.Variant{Node: 6, Kinds: jsonschema.Object, Tags: []string{`"image"`}}, jsonschema.Variant{Node: 7, Kinds: jsonschema.Array}),
	}
	resource := []jsonschema.Node{
		str,
		object(jsonschema.Prop{Name: "text", Node: 2, Required: true}, jsonschema.Prop{Name: "uri", Node: 2, Required: true}),
		object(jsonschema.Prop{Name: "blob", Node: 2, Required: true}, jsonschema.Prop{Name: "uri", Node: 2, Required: true}),
		anyOf("", jsonschema.Variant{Node: 3, Kinds: jsonschema.Object}, jsonschema.Variant{Node: 4, Kinds: jsonschema.Object}),
	}
	integer := jsonschema.Node{Types: jsonschema.Integer}
	for _, test := range []struct {
		name   string
		nodes  []jsonschema.Node
		admits []string
		faults map[string][]fault
	}{
		{
			name:   "the tag decides",
			nodes:  content,
			admits: []string{`{"type":"text","text":""}`, `{"data":"","t\u0079pe":"im\u0061ge"}`, `[]`, `[[{"type":"text","text":""}]]`},
			faults: map[string][]fault{
				`{"text":"","type":"image"}`:     {{"", 0, `required member "data" is missing`}},
				`{"type":"text","text":1}`:       {{"/text", 22, "want string, got number"}},
				`[{"type":"image","data":1},[]]`: {{"/0/data", 24, "want string, got number"}},
			},
		}, {
			name:  "an unknown tag is reported",
			nodes: content,
			faults: map[string][]fault{
				`{"data":1,"type":"audio"}`: {{"/type", 17, `"audio" is not one of "text", "image"`}},
				`{"type":null}`:             {{"/type", 8, `null is not one of "text", "image"`}},
			},
		}, {
			name:  "without a tag, the members present decide",
			nodes: content,
			faults: map[string][]fault{
				`{"data":""}`:         {{"", 0, `required member "type" is missing`}},
				`{"text":1,"x":2}`:    {{"", 0, `required member "type" is missing`}, {"/text", 8, "want string, got number"}},
				`[{"data":1}, "abc"]`: {{"/0", 1, `required member "type" is missing`}, {"/0/data", 9, "want string, got number"}, {"/1", 13, "want object or array, got string"}},
			},
		}, {
			name:   "required members decide",
			nodes:  resource,
			admits: []string{`{"uri":"","text":""}`, `{"uri":"","blob":""}`, `{"uri":"","blob":"","text":""}`, `{"uri":"","blob":"","text":1}`},
			faults: map[string][]fault{
				`{"uri":1,"blob":""}`:          {{"/uri", 7, "want string, got number"}},
				`{"blob":""}`:                  {{"", 0, `required member "uri" is missing`}},
				`{"uri":"","blob":1,"text":1}`: {{"/text", 26, "want string, got number"}},
				`5`:                            {{"", 0, "want object, got number"}},
			},
		}, {
			name:   "the kind decides; integers and fractions differ",
			nodes:  []jsonschema.Node{integer, str, anyOf("", jsonschema.Variant{Node: 2, Kinds: jsonschema.Integer}, jsonschema.Variant{Node: 3, Kinds: jsonschema.String})},
			admits: []string{`1`, `1.0`, `""`},
			faults: map[string][]fault{
				`1.5`:  {{"", 0, "number is not an integer"}},
				`null`: {{"", 0, "want string or integer, got null"}},
			},
		}, {
			name:   "among lists, the one with the fewest faults",
			nodes:  []jsonschema.Node{str, integer, {Types: jsonschema.Array, Items: 2}, {Types: jsonschema.Array, Items: 3}, anyOf("", jsonschema.Variant{Node: 4, Kinds: jsonschema.Array}, jsonschema.Variant{Node: 5, Kinds: jsonschema.Array})},
			admits: []string{`[]`, `["a"]`, `[1,2]`},
			faults: map[string][]fault{
				`["a",1,2]`: {{"/0", 1, "want integer, got string"}},
				`["a",1]`:   {{"/1", 5, "want string, got number"}},
			},
		}, {
			name:   "exactly one",
			nodes:  []jsonschema.Node{integer, {Types: jsonschema.Number, Bounds: []jsonschema.Bound{{Keyword: jsonschema.Minimum, Limit: "5"}}}, oneOf(jsonschema.Variant{Node: 2}, jsonschema.Variant{Node: 3})},
			admits: []string{`4`, `5.5`},
			faults: map[string][]fault{
				`5`:   {{"", 0, "more than one variant of oneOf admits this value"}},
				`4.5`: {{"", 0, "number is not an integer"}},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, text := range test.admits {
				if faults := check(t, test.nodes, text); faults != nil {
					t.Errorf("%s: %v", text, faults)
				}
			}
			for text, want := range test.faults {
				if diff := cmp.Diff(want, check(t, test.nodes, text)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", text, diff)
				}
			}
		})
	}
}

// Malformed text, or text over a limit, is a single fault: the error of package codec.
func TestMalformedTextIsOneFault(t *testing.T) {
	nodes := []jsonschema.Node{{Types: jsonschema.String}}
	for _, test := range []struct {
		text string
		opts []codec.Option
		want error
	}{
		{text: `{"a":}`, want: codec.ErrSyntax},
		{text: ``, want: jsonfault.EOF},
		{text: `{"a":1,"a":2}`, want: codec.ErrDuplicate},
		{text: `"a" 1`, want: jsonfault.Trailing},
		{text: `[[1]]`, opts: []codec.Option{codec.MaxDepth(1)}, want: jsonfault.Depth},
		{text: strings.Repeat("[", 100000), want: jsonfault.Depth},
	} {
		table := &jsonschema.Table{Nodes: append([]jsonschema.Node{{}, {Types: jsonschema.Never}}, nodes...)}
		err := table.Check(2, []byte(test.text), test.opts...)
		faults, ok := err.(jsonschema.Faults)
		if !ok || len(faults) != 1 || !errors.Is(err, test.want) {
			t.Errorf("%.20s: got %v, want %v alone", test.text, err, test.want)
		}
		if code := codec.Code(err); code != -32700 {
			t.Errorf("%.20s: code %d", test.text, code)
		}
	}
}

func TestFaultsSupportErrorsIsAndAs(t *testing.T) {
	table := &jsonschema.Table{Nodes: []jsonschema.Node{{}, {Types: jsonschema.Never}, {Types: jsonschema.Integer}, {Items: 2, Bounds: []jsonschema.Bound{{Keyword: jsonschema.MaxItems, Limit: "2"}}}}}
	err := table.Check(3, []byte("[1.5,\n\"a\",2]"))
	want := "json: 3 items, want at most 2 (line 1, column 1, offset 0)\n" +
		"json: /0: number is not an integer (line 1, column 2, offset 1)\n" +
		"json: /1: want integer, got string (line 2, column 1, offset 6)"
	if err.Error() != want {
		t.Errorf("got\n%v\nwant\n%v", err, want)
	}
	var broken *jsonschema.Error
	var first *codec.Error
	switch {
	case !errors.Is(err, codec.ErrType) || !strings.Contains(err.Error(), "want integer, got string"):
		t.Errorf("no ErrType: %v", err)
	case !errors.As(err, &broken) || broken.Keyword != "maxItems":
		t.Errorf("no Error: %v", broken)
	case !errors.As(err, &first) || first.Offset != 0:
		t.Errorf("not the first fault: %v", first)
	case !errors.Is(err, jsonfault.Integer):
		t.Error("ErrInteger is not found")
	case codec.Code(err) != -32602:
		t.Errorf("code %d", codec.Code(err))
	}
}

// The report about a hostile text is small compared with the text.
func TestFaultsAreLimited(t *testing.T) {
	list := []jsonschema.Node{{Types: jsonschema.String}, {Items: 2}}
	faults := check(t, list, "[1"+strings.Repeat(",1", 99_999)+"]")
	if len(faults) != jsonschema.MaxFaults+1 || faults[len(faults)-1].Message != jsonschema.ErrMore.Error() {
		t.Errorf("%d faults, the last is %v", len(faults), faults[len(faults)-1])
	}
	name := strings.Repeat("n", 300_000)
	inside := []jsonschema.Node{{Types: jsonschema.String}, {Items: 2}, {Rest: 3}}
	faults = check(t, inside, `{"`+name+`":[1`+strings.Repeat(",1", 99)+"]}")
	if len(faults) > 10 || faults[len(faults)-1].Message != jsonschema.ErrMore.Error() {
		t.Errorf("%d faults with large pointers, the last is %v", len(faults), faults[len(faults)-1])
	}
}

// The path to a fault is right even if it is too long for the preallocated steps.
func TestPointersOfDeepValues(t *testing.T) {
	nodes := []jsonschema.Node{{Types: jsonschema.Object | jsonschema.Array, Rest: 2, Items: 2}}
	const depth = 100
	text := strings.Repeat(`{"a":[0,`, depth) + "1" + strings.Repeat("]}", depth)
	faults := check(t, nodes, text)
	if len(faults) != depth+1 {
		t.Fatalf("%d faults", len(faults))
	}
	for i := range depth {
		if want := strings.Repeat("/a/1", i) + "/a/0"; faults[i].Pointer != want {
			t.Fatalf("fault %d at %q, want %q", i, faults[i].Pointer, want)
		}
	}
	if want := strings.Repeat("/a/1", depth); faults[depth].Pointer != want {
		t.Errorf("last fault at %q, want %q", faults[depth].Pointer, want)
	}
}

// Work grows with the text and not exponentially with its depth, even if a schema checks a value
// more than once at each level.
func TestNestedSchemasTakePolynomialTime(t *testing.T) {
	str := jsonschema.Node{Types: jsonschema.String}
	c := func(node int32) []jsonschema.Prop { return []jsonschema.Prop{{Name: "c", Node: node}} }
	for _, test := range []struct {
		name  string
		nodes []jsonschema.Node
		good  string // a valid innermost value, or ""
	}{
		{"anyOf", []jsonschema.Node{
			str, {Types: jsonschema.Object, Props: c(5)}, {Types: jsonschema.Object, Props: append(c(5), jsonschema.Prop{Name: "d", Node: 2})},
			{Union: []jsonschema.Variant{{Node: 3}, {Node: 4}}},
		}, `{"d":1}`},
		{"oneOf", []jsonschema.Node{
			str, {Types: jsonschema.Object, Props: c(5)}, {Types: jsonschema.Object, Props: append(c(5), jsonschema.Prop{Name: "d", Node: 2})},
			{Union: []jsonschema.Variant{{Node: 3}, {Node: 4}}, Exact: true},
		}, ""},
		{"allOf", []jsonschema.Node{
			str, {Types: jsonschema.Object, Props: c(5)}, {Types: jsonschema.Object, Props: append(c(5), jsonschema.Prop{Name: "d", Node: 2})},
			{All: []int32{3, 4}},
		}, `{"d":""}`},
		{"allOf beside properties", []jsonschema.Node{
			str, {Types: jsonschema.Object, Props: append(c(4), jsonschema.Prop{Name: "d", Node: 2})}, {Props: c(4), All: []int32{3}},
		}, `{"d":""}`},
		{"not", []jsonschema.Node{
			str, {Props: append(c(4), jsonschema.Prop{Name: "d", Node: 2, Required: true})}, {Types: jsonschema.Object, Props: c(4), Not: 3},
		}, `{}`},
		{"a union that is dispatched, beside properties", []jsonschema.Node{
			str, {Types: jsonschema.Object, Props: c(5)}, str,
			{Props: c(5), Union: []jsonschema.Variant{{Node: 3, Kinds: jsonschema.Object}, {Node: 4, Kinds: jsonschema.String}}},
		}, `{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, inner := range []string{test.good, `{"c":5,"d":7}`} {
				if inner == "" {
					continue
				}
				const depth = 200 // 2^200 steps would never end
				faults := check(t, test.nodes, strings.Repeat(`{"c":`, depth)+inner+strings.Repeat("}", depth))
				if (faults == nil) != (inner == test.good) {
					t.Errorf("%s: faults %v", inner, faults)
				}
			}
		})
	}
}

func TestRoot(t *testing.T) {
	table := &jsonschema.Table{
		Revisions:   []string{"1", "2"},
		Definitions: []jsonschema.Definition{{Name: "A", Nodes: []int32{2, -1}}, {Name: "B", Nodes: []int32{0, 3}}},
		Nodes:       []jsonschema.Node{{}, {Types: jsonschema.Never}, {}, {}},
	}
	for _, test := range []struct {
		revision, name string
		root           int32
		ok             bool
	}{
		{"1", "A", 2, true}, {"2", "A", jsonschema.None, false}, {"1", "B", 0, true}, {"2", "B", 3, true}, {"3", "B", jsonschema.None, false}, {"1", "C", jsonschema.None, false},
	} {
		if root, ok := table.Root(test.revision, test.name); root != test.root || ok != test.ok {
			t.Errorf("%s in %s: %d, %t", test.name, test.revision, root, ok)
		}
	}
}

func TestFaultShortensLongMemberName(t *testing.T) {
	closed := &jsonschema.Table{Nodes: []jsonschema.Node{{}, {Types: jsonschema.Never}, {Types: jsonschema.Object, Rest: jsonschema.None}}}
	err := closed.Check(2, []byte(`{"`+strings.Repeat("x", 10_000)+`":1}`))
	faults, ok := errors.AsType[jsonschema.Faults](err)
	if !ok || len(faults) != 1 {
		t.Fatalf("got %v", err)
	}
	if text := faults[0].Err.Error(); len(text) > 100 || !strings.HasSuffix(text, "… is not allowed") {
		t.Errorf("got %.200s", text)
	}
	if text := err.Error(); len(text) > 1200 {
		t.Errorf("got a text of %d bytes", len(text))
	}
}

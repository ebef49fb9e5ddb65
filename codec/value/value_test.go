package value_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

type inner struct {
	Count int      `json:"count"`
	Small int8     `json:"small"`
	Size  uint     `json:"size"`
	Ratio float64  `json:"ratio"`
	Short float32  `json:"short"`
	Tags  []string `json:"tags"`
	Name  string   `json:"name"`
	On    bool     `json:"on"`
}

type outer struct {
	Args   inner            `json:"args"`
	List   []inner          `json:"list"`
	Map    map[string]inner `json:"map"`
	Keys   map[int]string   `json:"keys"`
	Pair   [2]int           `json:"pair"`
	Bytes  []byte           `json:"bytes"`
	When   time.Time        `json:"when"`
	Text   upper            `json:"text"`
	Own    own              `json:"own"`
	Number json.Number      `json:"number"`
	Exact  codec.Number     `json:"exact"`
	Quoted int              `json:"quoted,string"`
	Any    any              `json:"any"`
	Face   io.Reader        `json:"face"`
	Point  *int             `json:"point"`
	Loose  string           `json:"loose,case:ignore"`
	Boxed  boxed            `json:"boxed"`
}

// boxed is JSON in a string.
type boxed struct{ inner }

func (b *boxed) UnmarshalText(text []byte) error { return codec.Unmarshal(text, value.Of(&b.inner)) }

// upper is text in capital letters.
type upper string

func (u *upper) UnmarshalText(text []byte) error {
	if strings.ToUpper(string(text)) != string(text) {
		return errSmall
	}
	*u = upper(text)
	return nil
}

var errSmall = errors.New("small letters")

// own decodes itself.
type own struct{ v []int64 }

func (o *own) UnmarshalJSON(text []byte) error { return codec.Unmarshal(text, o) }

func (o *own) DecodeJSON(r *wire.Reader) {
	for r.Array(); r.More(); {
		o.v = append(o.v, wire.ReadInt[int64](r))
	}
}

// A fault is reported at its place and in the words of package codec.
func TestDecodeReportsFaultWithPlace(t *testing.T) {
	for _, c := range []struct {
		text    string // with § in front of the fault
		pointer string
		err     error
		says    string
	}{
		{`{"args":{"count":§"5"}}`, "/args/count", nil, "want integer, got string"},
		{`{"args":{"count":§null,"name":§5}}`, "/args/name", nil, "want string, got number"},
		{`{"args": {"count" : §1.5 }}`, "/args/count", jsonfault.Integer, ""},
		{`{"args":{"count":§1e-1}}`, "/args/count", jsonfault.Integer, ""},
		{`{"args":{"count":§9223372036854775808}}`, "/args/count", value.ErrRange, ""},
		{`{"args":{"count":§1e400}}`, "/args/count", value.ErrRange, ""},
		{`{"args":{"count":§1e9223372036854775807}}`, "/args/count", value.ErrRange, ""},
		{`{"args":{"size":§12e9223372036854775806}}`, "/args/size", value.ErrRange, ""},
		{`{"args":{"small":§128}}`, "/args/small", value.ErrRange, ""},
		{`{"args":{"small":§1.28e2}}`, "/args/small", value.ErrRange, ""},
		{`{"args":{"size":§-1}}`, "/args/size", value.ErrRange, ""},
		{`{"args":{"size":§-1.5}}`, "/args/size", jsonfault.Integer, ""},
		{`{"args":{"ratio":§1e400}}`, "/args/ratio", value.ErrRange, ""},
		{`{"args":{"ratio":§"1"}}`, "/args/ratio", nil, "want number, got string"},
		{`{"args":{"short":§1e39}}`, "/args/short", value.ErrRange, ""},
		{`{"args":{"tags":§{}}}`, "/args/tags", nil, "want array, got object"},
		{`{"args":{"tags":["a",§["b"]]}}`, "/args/tags/1", nil, "want string, got array"},
		{`{"args":{"on":§"true"}}`, "/args/on", nil, "want boolean, got string"},
		{`{"args":§[]}`, "/args", nil, "want object, got array"},
		{"{\n\"list\":[{},\n{\"count\":§false}]}", "/list/1/count", nil, "want integer, got boolean"},
		{`{"map":{"a/b~":{"name":§1}}}`, "/map/a~1b~0/name", nil, "want string, got number"},
		{`{"keys":{"1":"a","x":§"b"}}`, "/keys/x", nil, `cannot decode member name "x" into Go type int`},
		{`{"pair":§[1]}`, "/pair", nil, ""},
		{`{"pair":§[1,2,3]}`, "/pair", nil, ""},
		{`{"bytes":§"!"}`, "/bytes", nil, ""},
		{`{"bytes":§5}`, "/bytes", nil, "want string, got number"},
		{`{"when":§"yesterday"}`, "/when", nil, `want a date and time such as 2025-01-31T12:00:00Z, got "yesterday"`},
		{`{"when":§"2025-02-30T00:00:00Z"}`, "/when", nil, `want a date and time such as 2025-01-31T12:00:00Z, got "2025-02-30T00:00:00Z": day out of range`},
		{`{"when":§5}`, "/when", nil, "want string, got number"},
		{`{"text":§"a"}`, "/text", errSmall, ""},
		{`{"text":§5}`, "/text", nil, "want string, got number"},
		{`{"own":[1, §"x"]}`, "/own/1", nil, "want integer, got string"},
		{`{"own":[1, §1.5]}`, "/own/1", jsonfault.Integer, ""},
		{`{"boxed": §"{\"count\":\"5\"}"}`, "/boxed", nil, "want integer, got string"},
		{`{"number":§"5"}`, "/number", nil, "want number, got string"},
		{`{"exact":§"5"}`, "/exact", nil, "want number, got string"},
		{`{"quoted":§5}`, "/quoted", nil, "want string with a number, got number"},
		{`{"quoted":§"x"}`, "/quoted", nil, ""},
		{`{"face":§{}}`, "/face", nil, ""},
		{`{"point":§true}`, "/point", nil, "want integer, got boolean"},
		{`§"text"`, "", nil, "want object, got string"},

		{`{"args":{"count":1},§"args":{}}`, "/args", codec.ErrDuplicate, ""},
		{`{"zzz":"§` + "\xff" + `"}`, "/zzz", jsonfault.UTF8, ""},
		{`{"zzz":["§\ud800"]}`, "/zzz/0", jsonfault.Surrogate, ""},
		{`{"args":{}}§{}`, "", jsonfault.Trailing, ""},
		{`{"args":{§`, "/args", jsonfault.EOF, ""},
		{`{"loose":"a","LOOSE":§"b"}`, "/LOOSE", nil, "another member has set the same field"},
		{`{"zzz":` + strings.Repeat("[", 9_999) + "§[" + strings.Repeat("]", 10_000) + `}`, "/zzz" + strings.Repeat("/0", 9_999), jsonfault.Depth, ""},
	} {
		at := strings.LastIndex(c.text, "§")
		text := strings.ReplaceAll(c.text, "§", "")
		at -= (strings.Count(c.text, "§") - 1) * len("§")
		err := codec.Unmarshal([]byte(text), value.Of(new(outer)), codec.MaxDepth(math.MaxInt))
		var e *codec.Error
		switch {
		case !errors.As(err, &e):
			t.Errorf("%s: got %v", text, err)
		case e.Pointer != c.pointer || e.Offset != int64(at):
			t.Errorf("%s: %v\n\tis at %d %q, want %d %q", text, err, e.Offset, e.Pointer, at, c.pointer)
		case c.err != nil && !errors.Is(err, c.err):
			t.Errorf("%s: got %v, want %v", text, err, c.err)
		case c.says != "" && e.Err.Error() != c.says:
			t.Errorf("%s: got %v, want %s", text, e.Err, c.says)
		}
	}
}

// Texts that package value reads in another way than encoding/json.
func TestDecodeDiffersFromEncodingJSON(t *testing.T) {
	type names struct {
		Name  string `json:"name"`
		Plain string
		Two   int `json:"two"`
	}
	type pointers struct {
		A *int            `json:"a"`
		B *names          `json:"b"`
		C []*int          `json:"c"`
		D map[string]*int `json:"d"`
	}
	for _, c := range []struct {
		name, text string
		v, want    any
	}{
		{"names in another case are unknown", `{"Name":"a","NAME":"b","plain":"c"}`, &names{Name: "x"}, &names{Name: "x"}},
		{"the exact name counts wherever it stands", `{"Name":"a","name":"b","NAME":"c","Plain":"d","plain":"e"}`, new(names), &names{Name: "b", Plain: "d"}},
		{"letters that fold to ASCII", `{"na\u212ae":"a","\u017fwo":1,"Two":2}`, new(names), new(names)},
		{"absent members leave defaults", `{"name":"b"}`, &names{Plain: "d", Two: 2}, &names{Name: "b", Plain: "d", Two: 2}},
		{"null is the zero value", `{"name":null,"two":null}`, &names{Name: "a", Plain: "d", Two: 2}, &names{Plain: "d"}},
		{"null and pointers", `{"a":null,"b":null,"c":[null,1],"d":{"x":null}}`, &pointers{A: new(1), B: new(names)}, &pointers{C: []*int{nil, new(1)}, D: map[string]*int{"x": nil}}},
		{"integers with fraction and exponent", `[1.0,-1e3,6e4,60000.00,1.5e1,-0,0e5,-0.0]`, new([]int), &[]int{1, -1000, 60000, 60000, 15, 0, 0, 0}},
		{"a negative zero beside such an integer", `{"I":-0.0,"F":-0.0}`, new(struct {
			I int
			F float64
		}), &struct {
			I int
			F float64
		}{0, math.Copysign(0, -1)}},
		{"integers with a fraction beside numbers that keep their text", `[{"n":1.0},{"i":1.0,"s":"1.0","n":2.0}]`, new([]struct {
			N json.Number `json:"n"`
			I int         `json:"i"`
			S string      `json:"s"`
		}), &[]struct {
			N json.Number `json:"n"`
			I int         `json:"i"`
			S string      `json:"s"`
		}{{N: "1.0"}, {"2.0", 1, "1.0"}}},
		{"numbers in an interface are exact", `[12345678901234567890,1e400,0.10,-0,1]`, new(any),
			new(any([]any{json.Number("12345678901234567890"), json.Number("1e400"), json.Number("0.10"), json.Number("-0"), json.Number("1")}))},
		{"other values in an interface", `{"a":["s\u0041",true,false,null,{}],"b":{"c":[]}}`, new(any),
			new(any(map[string]any{"a": []any{"sA", true, false, nil, map[string]any{}}, "b": map[string]any{"c": []any{}}}))},
		{"an interface is overwritten", `{"b":1}`, new(any(map[string]any{"a": "x"})), new(any(map[string]any{"b": json.Number("1")}))},
		{"an interface that holds a pointer", `{"name":"b"}`, new(any(&names{Two: 2})), new(any(&names{Name: "b", Two: 2}))},
		{"numbers as keys", `{"1":"a","-2":"b"}`, new(map[int]string), &map[int]string{1: "a", -2: "b"}},
		{"json.Number as a key", `{"x":1}`, new(map[json.Number]json.Number), &map[json.Number]json.Number{"x": "1"}},
		{"a list is overwritten", `[3]`, &[]int{1, 2}, &[]int{3}},
		{"deeper than the default", strings.Repeat("[", 600) + strings.Repeat("]", 600), new(any), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := codec.Unmarshal([]byte(c.text), value.Of(c.v), codec.MaxDepth(1000)); err != nil {
				t.Fatal(err)
			}
			if c.want == nil {
				if out, err := codec.Marshal(value.Of(c.v)); err != nil || string(out) != c.text {
					t.Errorf("written as %.50s, %v", out, err)
				}
				return
			}
			zeros := cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })
			if diff := cmp.Diff(c.want, c.v, zeros); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeAgreesWithUnmarshal(t *testing.T) {
	type args struct {
		Count int    `json:"count"`
		Name  string `json:"name"`
	}
	got := args{Name: "default"}
	if err := value.Decode(json.RawMessage(` {"other":[], "count" :1e1}`), &got); err != nil || got != (args{10, "default"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{`{"name":"a","count":"5"}`, `[]`, `{"count":1`, ``} {
		want := codec.Unmarshal([]byte(text), value.Of(new(args)))
		if err := value.Decode(json.RawMessage(text), new(args)); err == nil || err.Error() != want.Error() {
			t.Errorf("%s: got %v, want %v", text, err, want)
		}
	}
}

func TestDecodeRejectsInvalidTarget(t *testing.T) {
	for _, v := range []any{nil, 5, (*int)(nil), struct{}{}} {
		if err := codec.Unmarshal([]byte(`1`), value.Of(v)); err == nil {
			t.Errorf("%T was decoded into", v)
		}
	}
}

// asObject has its method on the pointer.
type asObject struct{ n int }

func (o *asObject) MarshalJSON() ([]byte, error) {
	return []byte("{\n  \"n\": [" + strings.Repeat(" ", o.n) + "]\n}"), nil
}

func TestEncode(t *testing.T) {
	type optional struct {
		A int            `json:"a,omitempty"`
		B bool           `json:"b,omitempty"`
		C []int          `json:"c,omitempty"`
		D map[string]int `json:"d,omitempty"`
		E *int           `json:"e,omitempty"`
		F time.Time      `json:"f,omitzero"`
		G [0]int         `json:"g,omitempty"`
		H string         `json:"h,omitempty"`
	}
	for _, c := range []struct {
		name string
		v    any
		want string
	}{
		{"nil lists and maps", struct {
			L []int
			M map[string]int
			P *int
			I any
			R json.RawMessage
		}{}, `{"L":[],"M":{},"P":null,"I":null,"R":null}`},
		{"omitempty as in encoding/json", optional{}, `{}`},
		{"characters", "<&>\u2028\x00é\n", "\"<&>\u2028\\u0000é\\n\""},
		{"maps are sorted", map[string]int{"b": 1, "a": 2, "c": 3}, `{"a":2,"b":1,"c":3}`},
		{"durations and arrays of bytes", []any{time.Second, [2]byte{1, 2}, []byte{1, 2}}, `[1000000000,[1,2],"AQI="]`},
		{"the option string", struct {
			N int    `json:",string"`
			B bool   `json:",string"`
			S string `json:",string"`
		}{5, true, "x"}, `{"N":"5","B":"true","S":"\"x\""}`},
		{"numbers", []any{json.Number("1.0"), json.Number(""), codec.Number("1e400"), 1e21, 0.1, float32(0.1)}, `[1.0,0,1e400,1e+21,0.1,0.1]`},
		{"json.Number as a key", map[json.Number]json.Number{"1.0": "2.0"}, `{"1.0":2.0}`},
		{"methods of pointers", []any{asObject{}, map[string]asObject{"x": {n: 2}}, []asObject{{1}}}, `[{"n":[]},{"x":{"n":[]}},[{"n":[]}]]`},
		{"raw values", []json.RawMessage{json.RawMessage("{\n}"), json.RawMessage(" 1.00 ")}, `[{},1.00]`},
		{"nil", nil, `null`},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := codec.Marshal(value.Of(c.v))
			if err != nil || string(out) != c.want {
				t.Errorf("got  %s, %v\nwant %s", out, err, c.want)
			}
		})
	}
}

// texts is text as a key of a map.
type texts struct{ s string }

func (t texts) MarshalText() ([]byte, error) { return []byte(strings.ToUpper(t.s)), nil }

// broken writes malformed JSON.
type broken struct{}

func (broken) MarshalJSON() ([]byte, error) { return []byte(`{"a":1,"a":2}`), nil }

// failing always fails.
type failing struct{}

func (failing) MarshalJSON() ([]byte, error) { return nil, errSmall }

// A value that has no JSON form is refused with the place in it.
func TestEncodeRejectsValueWithoutJSONForm(t *testing.T) {
	type list struct {
		L []any `json:"l/s"`
	}
	loop := map[string]any{}
	loop["x"] = loop
	for _, c := range []struct {
		name    string
		v       any
		pointer string
		err     error
	}{
		{"not a number", list{[]any{1, math.NaN()}}, "/l~1s/1", jsonfault.Float},
		{"infinite", math.Inf(1), "", jsonfault.Float},
		{"not UTF-8", list{[]any{"\xff"}}, "/l~1s/0", jsonfault.UTF8},
		{"a name that is not UTF-8", map[string]int{"\xff": 1}, "", jsonfault.UTF8},
		{"keys with the same text", map[texts]int{{"a"}: 1, {"A"}: 2}, "/A", codec.ErrDuplicate},
		{"an invalid json.Number", list{[]any{json.Number("1x")}}, "", nil},
		{"an empty codec.Number", list{[]any{codec.Number("")}}, "/l~1s/0", codec.ErrNoValue},
		{"a channel", list{[]any{make(chan int)}}, "/l~1s/0", nil},
		{"a function in a map", map[string]any{"f": func() {}}, "/f", nil},
		{"a cycle", loop, "", nil},
		{"a method that writes a name twice", list{[]any{broken{}}}, "", nil},
		{"a method that fails", list{[]any{failing{}}}, "/l~1s/0", errSmall},
		{"an invalid raw value", list{[]any{json.RawMessage(`{"a":`)}}, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := codec.Append([]byte("x"), value.Of(c.v))
			var e *codec.Error
			switch {
			case !errors.As(err, &e) || string(out) != "x":
				t.Fatalf("got %s, %v", out, err)
			case c.err != nil && (!errors.Is(err, c.err) || e.Pointer != c.pointer):
				t.Errorf("got %v, want %v at %q", err, c.err, c.pointer)
			case !strings.HasPrefix(e.Pointer, c.pointer):
				t.Errorf("got %v, want it at %q", err, c.pointer)
			case codec.Code(err) != 0:
				t.Errorf("code %d for %v", codec.Code(err), err)
			}
		})
	}
}

// content is an object with a Value as member.
type content struct{ v value.Value }

func (c content) EncodeJSON(w *wire.Writer) {
	w.Begin()
	w.Key(`,"structuredContent":`)
	c.v.EncodeJSON(w)
	w.End()
}

// A value is a part of a message that package codec reads and writes.
func TestValueInsideMessage(t *testing.T) {
	var args struct {
		Count int `json:"count"`
	}
	read := func(text string) error {
		_, err := codec.UnmarshalFunc([]byte(text), func(r *wire.Reader) struct{} {
			for r.Object(); r.More(); {
				r.Key()
				value.Of(&args).DecodeJSON(r)
			}
			return struct{}{}
		})
		return err
	}
	if err := read(` {"arguments" : {"count":7} }`); err != nil || args.Count != 7 {
		t.Errorf("%+v, %v", args, err)
	}
	var e *codec.Error
	err := read("{\"a\":{},\n\"arguments\":{\"count\":\"7\"}}")
	if !errors.As(err, &e) || e.Pointer != "/arguments/count" || e.Offset != 30 || e.Line != 2 || e.Column != 22 {
		t.Errorf("%v", err)
	}
	_, err = codec.Marshal(content{value.Of(map[string]any{"rate": []float64{1, math.NaN()}})})
	if !errors.As(err, &e) || e.Pointer != "/structuredContent/rate/1" {
		t.Errorf("%v", err)
	}
}

// A decoded value does not change with the text.
func TestDecodedValueSharesNoMemoryWithText(t *testing.T) {
	text := []byte(`{"s":"some text","b":"AAEC","r":[1, 2],"n":123,"a":{"k":["v",4.5]},"m":{"key":"v"}}`)
	type all struct {
		S string            `json:"s"`
		B []byte            `json:"b"`
		R json.RawMessage   `json:"r"`
		N json.Number       `json:"n"`
		A any               `json:"a"`
		M map[string]string `json:"m"`
	}
	want := all{"some text", []byte{0, 1, 2}, json.RawMessage(`[1, 2]`), "123", map[string]any{"k": []any{"v", json.Number("4.5")}}, map[string]string{"key": "v"}}
	for _, opts := range [][]codec.Option{nil, {codec.NoCopy()}} {
		text := []byte(string(text))
		var got all
		if err := codec.Unmarshal(text, value.Of(&got), opts...); err != nil {
			t.Fatal(err)
		}
		clear(text)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

package codec_test

import (
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
)

// point is written by hand in the way of the generated types.
type point struct {
	X, Y  int64
	Label *string
	Extra codec.Extra
}

func (p *point) DecodeJSON(r *codec.Reader) {
	*p = point{}
	for r.Object(); r.More(); {
		switch key := r.Key(); key {
		case "x":
			p.X = r.IntExact(&p.Extra, key)
		case "y":
			p.Y = r.IntExact(&p.Extra, key)
		case "label":
			p.Label = new(r.Text())
		default:
			r.Keep(&p.Extra, key)
		}
	}
}

func (p *point) EncodeJSON(w *codec.Writer) {
	start := w.Begin()
	w.Key(`,"x":`)
	w.IntExact(p.X, p.Extra, "x")
	w.Key(`,"y":`)
	w.IntExact(p.Y, p.Extra, "y")
	if p.Label != nil {
		w.Key(`,"label":`)
		w.Text(*p.Label)
	}
	w.End(start, p.Extra)
}

func Example() {
	var p point
	err := codec.Unmarshal([]byte(`{"x": 6e4, "y": -1e30, "color": {"r": 255}}`), &p)
	fmt.Println(p.X, p.Y, err)

	p.X++
	out, err := codec.Marshal(&p)
	fmt.Println(string(out), err)
	// Output:
	// 60000 -9223372036854775808 <nil>
	// {"x":60001,"y":-1e30,"color":{"r": 255}} <nil>
}

func ExampleError() {
	err := codec.Unmarshal([]byte("{\n  \"x\": 1,\n  \"label\": 7\n}"), new(point))
	fmt.Println(err)

	var e *codec.Error
	var wrong *codec.TypeError
	if errors.As(err, &e) && errors.As(err, &wrong) {
		fmt.Println(e.Line, e.Column, e.Pointer, wrong.Got)
	}
	// Output:
	// json: /label: want string, got number (line 3, column 12, offset 23)
	// 3 12 /label number
}

func ExampleValid() {
	for _, text := range []string{`{"a": [1, 2]}`, `{"a": [1, 2,]}`, `{"a": 1, "\u0061": 2}`, `"\ud800"`} {
		err := codec.Valid([]byte(text))
		fmt.Println(err, errors.Is(err, codec.ErrDuplicate))
	}
	// Output:
	// <nil> false
	// json: /a/2: syntax error: want a value, got "]" (line 1, column 13, offset 12) false
	// json: /a: member name appears twice (line 1, column 10, offset 9) true
	// json: escape of half a surrogate pair (line 1, column 2, offset 1) false
}

func ExampleReader_PeekMember() {
	r := codec.NewReader([]byte(`{"text": "hello", "type": "text"}`))
	kind, _, ok := r.PeekMember("type")
	fmt.Println(kind, ok)
	fmt.Println(string(r.Raw())) // nothing was consumed
	// Output:
	// text true
	// {"text": "hello", "type": "text"}
}

func ExampleExtra() {
	var p point
	if err := codec.Unmarshal([]byte(`{"x":1,"y":2,"z":3,"w":4}`), &p); err != nil {
		fmt.Println(err)
	}
	for name, value := range p.Extra.All() {
		fmt.Println(name, string(value))
	}
	p.Extra.Delete("w")
	p.Extra.Set("z", []byte(`"three"`))
	out, _ := codec.Marshal(&p)
	fmt.Println(string(out))
	// Output:
	// z 3
	// w 4
	// {"x":1,"y":2,"z":"three"}
}

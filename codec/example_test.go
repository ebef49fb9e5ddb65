package codec_test

import (
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// point encodes and decodes itself as the generated types do.
type point struct {
	X, Y  int64
	Label *string
	Extra wire.Extra // unknown members, and values that do not fit a field
}

var pointMembers = wire.Members{Names: []string{`"x":`, `"y":`, `"label":`}}

func (p *point) DecodeJSON(r *wire.Reader) {
	*p = point{}
	o := r.Enter(&pointMembers, &p.Extra)
	for i := o.Next(); i >= 0; i = o.Next() {
		switch i {
		case 0:
			p.X = o.Int()
		case 1:
			p.Y = o.Int()
		case 2:
			p.Label = r.NewText()
		default:
			o.Extra()
		}
	}
}

func (p *point) EncodeJSON(w *wire.Writer) {
	start := w.Begin()
	w.Key(`,"x":`)
	w.IntExact(p.X, p.Extra, "x")
	w.Key(`,"y":`)
	w.IntExact(p.Y, p.Extra, "y")
	if p.Label != nil {
		w.KeyText(`,"label":"`, *p.Label)
	}
	w.EndExtra(start, p.Extra, &pointMembers)
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
	if errors.As(err, &e) && errors.Is(err, codec.ErrType) {
		fmt.Println(e.Line, e.Column, e.Pointer)
	}
	// Output:
	// json: /label: want string, got number (line 3, column 12, offset 23)
	// 3 12 /label
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

// This example reads a value without a Go type for it.
func ExampleReadPart() {
	err := codec.ReadPart([]byte(`{"name": "Oslo", "degrees": [4, 5.5], "country": {"code": "NO"}}`), func(r *wire.Reader) {
		r.Object()
		for name, ok := r.NextKey(); ok; name, ok = r.NextKey() {
			switch string(name) {
			case "name":
				fmt.Println("name:", r.Text())
			case "degrees":
				for r.Array(); r.More(); {
					v, exact := r.Float()
					fmt.Println("degrees:", v, exact)
				}
			default:
				fmt.Println("not known:", string(r.Raw()))
			}
		}
	})
	fmt.Println(err) // the first failure, if any
	// Output:
	// name: Oslo
	// degrees: 4 true
	// degrees: 5.5 true
	// not known: {"code": "NO"}
	// <nil>
}

func ExampleMember() {
	result := []byte(`{"content": [], "isError": true}`)
	value, ok := codec.Member(result, "isError")
	fmt.Println(string(value), ok)
	// Output:
	// true true
}

func ExampleUnmarshalFunc() {
	points, err := codec.UnmarshalFunc([]byte(`{"home": {"x": 1, "y": 2}}`), wire.DecodeMap[point])
	fmt.Println(points["home"].X, points["home"].Y, err)
	// Output:
	// 1 2 <nil>
}

func ExampleLocate() {
	text := []byte("{\n  \"list\": [1, {\"a/b\": true}]\n}")
	at, ok := codec.Locate(text, "/list/1/a~1b")
	line, column := codec.Position(text, at)
	fmt.Println(ok, line, column, string(text[at:at+4]))
	// Output:
	// true 2 23 true
}

// Ids and progress tokens are scalars: strings or integers. A Scalar can be a map key, and the
// integer 7 and the string "7" are different keys.
func ExampleScalar() {
	seen := map[codec.Scalar]bool{codec.IntScalar(7): true}
	for _, id := range []codec.Scalar{codec.IntScalar(7), codec.StringScalar("7")} {
		fmt.Println(id, seen[id])
	}
	// Output:
	// 7 true
	// "7" false
}

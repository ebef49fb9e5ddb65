package wire_test

import (
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

func ExampleReader_PeekMember() {
	r := wire.NewReader([]byte(`{"text": "hello", "type": "text"}`), wire.Limits{})
	kind, _, ok := r.PeekMember("type")
	fmt.Println(kind, ok)
	fmt.Println(string(r.Raw())) // nothing was consumed
	// Output:
	// text true
	// {"text": "hello", "type": "text"}
}

func ExampleNewWriter() {
	w := wire.NewWriter([]byte("data: "))
	w.Begin()
	w.KeyText(`,"name":"`, "Oslo") // with the opening quote of the text
	w.Key(`,"degrees":`)
	w.BeginArray()
	for _, v := range []int64{4, 5} {
		w.Elem()
		w.Int(v)
	}
	w.EndArray()
	w.End()
	fmt.Println(string(w.Bytes()), w.Failure().Err)
	// Output:
	// data: {"name":"Oslo","degrees":[4,5]} <nil>
}

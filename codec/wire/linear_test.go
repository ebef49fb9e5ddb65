package wire_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/doubling"
)

// node is a union that peeks for its discriminator at every level before it reads the value.
type node struct{ types int }

func (v *node) DecodeJSON(r *wire.Reader) {
	if text, _, ok := r.PeekMember("type"); ok && text == "t" {
		v.types++
	}
	if r.PeekKeys(wire.Key{Name: "type"}, wire.Key{Name: "nothing"}) != 1 {
		v.types = -1 << 31
	}
	for r.Object(); r.More(); {
		if r.Key() == "in" && r.Kind() == wire.KindObject {
			v.DecodeJSON(r)
		} else {
			r.Skip()
		}
	}
}

// retries reads an array. It reads each element first as another type and then rewinds.
type retries struct{ n int }

func (v *retries) DecodeJSON(r *wire.Reader) {
	for r.Array(); r.More(); v.n++ {
		m := r.Checkpoint()
		r.Bool()
		if r.Failed() {
			r.Rewind(m)
			r.Skip()
		}
	}
}

// numbers reads one number in every way.
type numbers struct{}

func (numbers) DecodeJSON(r *wire.Reader) {
	m := r.Checkpoint()
	var x wire.Extra
	r.Int()
	r.Rewind(m)
	r.FloatExact(&x, "n")
	r.Rewind(m)
	codec.ReadScalar(r, wire.ScalarNumber)
	w := wire.NewWriter(nil)
	w.FloatExact(0, x, "n")
}

func many(n int, sep string, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(f(i))
	}
	return b.String()
}

func name(i int) string { return fmt.Sprintf(`"n%06d":%d`, i, i) }

// adversarial lists inputs that cause quadratic work in a careless decoder.
var adversarial = []struct {
	name string
	text func(n int) string
	v    func() codec.Decoder
	fail bool
}{
	{"many members", func(n int) string { return `{` + many(n, ",", name) + `}` }, func() codec.Decoder { return new(record) }, false},
	{"many members, raw", func(n int) string { return `{"free":{` + many(n, ",", name) + `}}` }, func() codec.Decoder { return new(record) }, false},
	{"many members with escapes", func(n int) string {
		return `{` + many(n, ",", func(i int) string { return `"\u006e` + name(i)[1:] }) + `}`
	}, func() codec.Decoder { return new(record) }, false},
	{"many members and the first again", func(n int) string { return `{` + many(n, ",", name) + `,` + name(0) + `}` }, func() codec.Decoder { return new(record) }, true},
	{"every member again", func(n int) string {
		return `{"list":[` + many(n, ",", func(int) string { return `{"x":1,"y":2}` }) + `,{"x":1,"x":2}]}`
	}, func() codec.Decoder { return new(record) }, true},
	{"many objects of seventeen equal names", func(n int) string {
		object := `{` + many(17, ",", name) + `}`
		return `{"list":[` + many(n/17, ",", func(int) string { return object }) + `],"free":[` + many(n/17, ",", func(int) string { return object }) + `]}`
	}, func() codec.Decoder { return new(record) }, false},
	{"long names that differ at the end", func(n int) string {
		return `{` + many(n/10, ",", func(i int) string { return `"` + strings.Repeat("x", 100) + name(i)[1:] }) + `}`
	}, func() codec.Decoder { return new(record) }, false},
	{"deep arrays, raw", func(n int) string { return `{"free":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }, func() codec.Decoder { return new(record) }, false},
	{"deep objects, raw", func(n int) string { return strings.Repeat(`{"a":`, n) + `1` + strings.Repeat("}", n) }, func() codec.Decoder { return new(record) }, false},
	{"deep arrays, not closed", func(n int) string { return `{"free":` + strings.Repeat("[", n) }, func() codec.Decoder { return new(record) }, true},
	{"deep values of a type", func(n int) string { return strings.Repeat(`{"inner":`, n/4) + `{}` + strings.Repeat("}", n/4) }, func() codec.Decoder { return new(record) }, false},
	{"deep lists with a fault in the middle", func(n int) string { return strings.Repeat(`{"list":[{},`, n/4) + `!` }, func() codec.Decoder { return new(record) }, true},
	{"deep unions, discriminator last", func(n int) string {
		return strings.Repeat(`{"x":[1,{}],"in":`, n/4) + `0` + strings.Repeat(`,"type":"t"}`, n/4)
	}, func() codec.Decoder { return new(node) }, false},
	{"deep unions of small values", func(n int) string { return strings.Repeat(`{"in":`, n/4) + `0` + strings.Repeat(`,"type":"t"}`, n/4) }, func() codec.Decoder { return new(node) }, false},
	{"deep unions, not closed", func(n int) string { return strings.Repeat(`{"x":[1,{}],"in":`, n/4) }, func() codec.Decoder { return new(node) }, true},
	{"failures that are taken back", func(n int) string { return `[` + many(n, ",\n", func(int) string { return `1` }) + `]` }, func() codec.Decoder { return new(retries) }, false},
	{"escapes", func(n int) string { return `{"name":"` + strings.Repeat(`\u00e9\n\ud83d\ude00`, n) + `"}` }, func() codec.Decoder { return new(record) }, false},
	{"many strings with escapes", func(n int) string { return `{"tags":[` + many(n, ",", func(int) string { return `"\n"` }) + `]}` }, func() codec.Decoder { return new(record) }, false},
	{"many strings", func(n int) string { return `{"tags":[` + many(n, ",", func(int) string { return `"tag"` }) + `]}` }, func() codec.Decoder { return new(record) }, false},
	{"characters beyond ASCII", func(n int) string { return `{"name":"` + strings.Repeat(`aé€😀`, n) + `"}` }, func() codec.Decoder { return new(record) }, false},
	{"a number of many digits", func(n int) string { return strings.Repeat("7", 8*n) }, func() codec.Decoder { return numbers{} }, true},
	{"a fraction of many digits", func(n int) string { return "0." + strings.Repeat("0", 4*n) + strings.Repeat("7", 4*n) }, func() codec.Decoder { return numbers{} }, true},
	{"an exponent of many digits", func(n int) string { return "1e" + strings.Repeat("7", 8*n) }, func() codec.Decoder { return numbers{} }, true},
	{"zeros taken off again", func(n int) string { return "1" + strings.Repeat("0", 8*n) + "e-" + fmt.Sprint(8*n) }, func() codec.Decoder { return numbers{} }, true},
	{"white space", func(n int) string {
		return `{` + strings.Repeat(" \n", 4*n) + `"list" :` + strings.Repeat("\t", 4*n) + `[]}`
	}, func() codec.Decoder { return new(record) }, false},
	{"white space before the end", func(n int) string { return strings.Repeat(" \n", 4*n) }, func() codec.Decoder { return new(record) }, true},
	{"deep values with a null at every level", func(n int) string {
		return strings.Repeat(`{"name":null,"inner":`, n/4) + `{}` + strings.Repeat("}", n/4)
	}, func() codec.Decoder { return new(record) }, false},
	{"deep values with a null at the end of every level", func(n int) string {
		return strings.Repeat(`{"inner":`, n/4) + `{}` + strings.Repeat(`,"name":null}`, n/4)
	}, func() codec.Decoder { return new(record) }, false},
	{"deep values with a number that does not fit at every level", func(n int) string {
		return strings.Repeat(`{"count":1e99,"inner":`, n/4) + `{}` + strings.Repeat(`}`, n/4)
	}, func() codec.Decoder { return new(record) }, false},
	{"members twice, one object after the other", func(n int) string {
		return `{"list":[` + many(n, ",", func(i int) string { return `{` + name(i) + `,` + name(i+1) + `}` }) + `,{"x":1,"x":2}]}`
	}, func() codec.Decoder { return new(record) }, true},
	{"the same name n times", func(n int) string { return `{` + many(n, ",", func(int) string { return name(0) }) + `}` }, func() codec.Decoder { return new(record) }, true},
	{"a fault behind many lines", func(n int) string { return `{"list":[` + many(n, ",\n", func(int) string { return `{}` }) + `,]}` }, func() codec.Decoder { return new(record) }, true},
	{"a fault behind a long name", func(n int) string { return `{"` + strings.Repeat(`~\u002f`, n) + `":{"free":x}}` }, func() codec.Decoder { return new(record) }, true},
	{"a long id", func(n int) string { return `{"id":"` + strings.Repeat(`\u0000`, n) + `"}` }, func() codec.Decoder { return new(record) }, false},
	{"a long number for an id", func(n int) string { return `{"id":1` + strings.Repeat("0", 8*n) + `}` }, func() codec.Decoder { return new(record) }, false},
	{"a long fraction that is an integer, for an id", func(n int) string { return `{"id":1.` + strings.Repeat("0", 8*n) + `}` }, func() codec.Decoder { return new(record) }, false},
	{"long names between quotes and backslashes", func(n int) string {
		return `{"` + strings.Repeat(`\\\"`, n) + `":1,"name":"` + strings.Repeat(`\\`, n) + `"}`
	}, func() codec.Decoder { return new(record) }, false},
	{"numbers that do not fit", func(n int) string {
		return `{"list":[` + many(n/8, ",", func(int) string { return `{"count":1e99,"ratio":1e999}` }) + `]}`
	}, func() codec.Decoder { return new(record) }, false},
}

func TestWorkIsLinear(t *testing.T) {
	for _, c := range adversarial {
		t.Run(c.name, func(t *testing.T) {
			doubling.Check(t, func(n int) func() {
				text := []byte(c.text(n))
				return func() {
					v := c.v()
					err := codec.Unmarshal(text, v, codec.MaxDepth(1<<30))
					if _, isNumber := v.(numbers); !isNumber && (err != nil) != c.fail {
						t.Fatal(err)
					}
					if w, ok := v.(codec.Encoder); ok && err == nil {
						out, err := codec.Marshal(w)
						if err != nil || !bytes.Equal(out[:1], text[:1]) {
							t.Fatal(err)
						}
					}
					if n, ok := v.(*node); ok && err == nil && n.types <= 0 {
						t.Fatal("a discriminator was missed")
					}
				}
			})
		})
	}
}

package codec

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// node is a union that looks for its discriminator at every level before it reads on.
type node struct{ types int }

func (v *node) DecodeJSON(r *Reader) {
	if text, _, ok := r.PeekMember("type"); ok && text == "t" {
		v.types++
	}
	if r.PeekKeys("type", "nothing") != 1 {
		v.types = -1 << 31
	}
	for r.Object(); r.More(); {
		if r.Key() == "in" && r.Kind() == KindObject {
			v.DecodeJSON(r)
		} else {
			r.Skip()
		}
	}
}

// retries reads an array and goes back at each element, which it first takes for something else.
type retries struct{ n int }

func (v *retries) DecodeJSON(r *Reader) {
	for r.Array(); r.More(); v.n++ {
		m := r.Mark()
		r.Bool()
		if r.Failed() {
			r.Rewind(m)
			r.Skip()
		}
	}
}

// numbers reads one number in every way.
type numbers struct{}

func (numbers) DecodeJSON(r *Reader) {
	m := r.Mark()
	var x Extra
	r.Int()
	r.Rewind(m)
	r.FloatExact(&x, "n")
	r.Rewind(m)
	r.Scalar(ScalarNumber)
	w := NewWriter(nil)
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

// adversarial are inputs that make a careless decoder do work in the square of their size.
var adversarial = []struct {
	name string
	text func(n int) string
	v    func() Decoder
	fail bool
}{
	{"many members", func(n int) string { return `{` + many(n, ",", name) + `}` }, func() Decoder { return new(record) }, false},
	{"many members, raw", func(n int) string { return `{"free":{` + many(n, ",", name) + `}}` }, func() Decoder { return new(record) }, false},
	{"many members with escapes", func(n int) string {
		return `{` + many(n, ",", func(i int) string { return `"\u006e` + name(i)[1:] }) + `}`
	}, func() Decoder { return new(record) }, false},
	{"many members and the first again", func(n int) string { return `{` + many(n, ",", name) + `,` + name(0) + `}` }, func() Decoder { return new(record) }, true},
	{"every member again", func(n int) string {
		return `{"list":[` + many(n, ",", func(int) string { return `{"x":1,"y":2}` }) + `,{"x":1,"x":2}]}`
	}, func() Decoder { return new(record) }, true},
	{"many objects of seventeen equal names", func(n int) string {
		object := `{` + many(17, ",", name) + `}`
		return `{"list":[` + many(n/17, ",", func(int) string { return object }) + `],"free":[` + many(n/17, ",", func(int) string { return object }) + `]}`
	}, func() Decoder { return new(record) }, false},
	{"long names that differ at the end", func(n int) string {
		return `{` + many(n/10, ",", func(i int) string { return `"` + strings.Repeat("x", 100) + name(i)[1:] }) + `}`
	}, func() Decoder { return new(record) }, false},
	{"deep arrays, raw", func(n int) string { return `{"free":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}` }, func() Decoder { return new(record) }, false},
	{"deep objects, raw", func(n int) string { return strings.Repeat(`{"a":`, n) + `1` + strings.Repeat("}", n) }, func() Decoder { return new(record) }, false},
	{"deep arrays, not closed", func(n int) string { return `{"free":` + strings.Repeat("[", n) }, func() Decoder { return new(record) }, true},
	{"deep values of a type", func(n int) string { return strings.Repeat(`{"inner":`, n/4) + `{}` + strings.Repeat("}", n/4) }, func() Decoder { return new(record) }, false},
	{"deep lists with a fault in the middle", func(n int) string { return strings.Repeat(`{"list":[{},`, n/4) + `!` }, func() Decoder { return new(record) }, true},
	{"deep unions, discriminator last", func(n int) string {
		return strings.Repeat(`{"x":[1,{}],"in":`, n/4) + `0` + strings.Repeat(`,"type":"t"}`, n/4)
	}, func() Decoder { return new(node) }, false},
	{"deep unions of small values", func(n int) string { return strings.Repeat(`{"in":`, n/4) + `0` + strings.Repeat(`,"type":"t"}`, n/4) }, func() Decoder { return new(node) }, false},
	{"deep unions, not closed", func(n int) string { return strings.Repeat(`{"x":[1,{}],"in":`, n/4) }, func() Decoder { return new(node) }, true},
	{"failures that are taken back", func(n int) string { return `[` + many(n, ",\n", func(int) string { return `1` }) + `]` }, func() Decoder { return new(retries) }, false},
	{"escapes", func(n int) string { return `{"name":"` + strings.Repeat(`\u00e9\n\ud83d\ude00`, n) + `"}` }, func() Decoder { return new(record) }, false},
	{"many strings with escapes", func(n int) string { return `{"tags":[` + many(n, ",", func(int) string { return `"\n"` }) + `]}` }, func() Decoder { return new(record) }, false},
	{"many strings", func(n int) string { return `{"tags":[` + many(n, ",", func(int) string { return `"tag"` }) + `]}` }, func() Decoder { return new(record) }, false},
	{"characters beyond ASCII", func(n int) string { return `{"name":"` + strings.Repeat(`aé€😀`, n) + `"}` }, func() Decoder { return new(record) }, false},
	{"a number of many digits", func(n int) string { return strings.Repeat("7", 8*n) }, func() Decoder { return numbers{} }, true},
	{"a fraction of many digits", func(n int) string { return "0." + strings.Repeat("0", 4*n) + strings.Repeat("7", 4*n) }, func() Decoder { return numbers{} }, true},
	{"an exponent of many digits", func(n int) string { return "1e" + strings.Repeat("7", 8*n) }, func() Decoder { return numbers{} }, true},
	{"zeros taken off again", func(n int) string { return "1" + strings.Repeat("0", 8*n) + "e-" + fmt.Sprint(8*n) }, func() Decoder { return numbers{} }, true},
	{"white space", func(n int) string {
		return `{` + strings.Repeat(" \n", 4*n) + `"list" :` + strings.Repeat("\t", 4*n) + `[]}`
	}, func() Decoder { return new(record) }, false},
	{"white space before the end", func(n int) string { return strings.Repeat(" \n", 4*n) }, func() Decoder { return new(record) }, true},
	{"numbers that do not fit", func(n int) string {
		return `{"list":[` + many(n/8, ",", func(int) string { return `{"count":1e99,"ratio":1e999}` }) + `]}`
	}, func() Decoder { return new(record) }, false},
}

// Sixteen times the input may cost sixteen times the work and the memory, and some more for caches and growing
// slices; what grows with the square costs 256 times as much.
func TestWorkGrowsWithTheInputAndNotItsSquare(t *testing.T) {
	const small, factor, slack = 1000, 16, 10
	for _, c := range adversarial {
		t.Run(c.name, func(t *testing.T) {
			run := func(text []byte) {
				v := c.v()
				err := Unmarshal(text, v, MaxDepth(1<<30))
				if _, isNumber := v.(numbers); !isNumber && (err != nil) != c.fail {
					t.Fatal(err)
				}
				if w, ok := v.(Encoder); ok && err == nil {
					out, err := Marshal(w)
					if err != nil || !bytes.Equal(out[:1], text[:1]) {
						t.Fatal(err)
					}
				}
				if n, ok := v.(*node); ok && err == nil && n.types <= 0 {
					t.Fatal("a discriminator was missed")
				}
			}
			a, b := []byte(c.text(small)), []byte(c.text(small*factor))
			for attempt := 1; ; attempt++ {
				timeA, bytesA := cost(a, 8, run)
				timeB, bytesB := cost(b, 2, run)
				if timeB < timeA*factor*slack && bytesB < bytesA*factor*slack+1<<16 {
					return
				}
				if attempt == 5 {
					t.Errorf("%d bytes: %v, %d bytes of memory; %d bytes: %v, %d bytes of memory", len(a), timeA, bytesA, len(b), timeB, bytesB)
					return
				}
			}
		})
	}
}

// cost returns the least time and memory that f took for text in some runs.
func cost(text []byte, runs int, f func([]byte)) (least time.Duration, memory uint64) {
	for i := range runs {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		f(text)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if i == 0 || took < least {
			least = took
		}
		if used := after.TotalAlloc - before.TotalAlloc; i == 0 || used < memory {
			memory = used
		}
	}
	return least, memory
}

package wire_test

import (
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/doubling"
)

func TestReuseAllocatesNothingPerMember(t *testing.T) {
	small, large := []byte(`{"a":"x"}`), []byte(`{"k0":"x"`+many(500, "", func(i int) string { return `,"k` + name(i)[2:8] + `":"some text"` })+`}`)
	r, w := newReader(nil), wire.NewWriter(make([]byte, 0, 64<<10))
	for _, c := range []struct {
		name string
		most float64 // for the large object
		f    func(text []byte)
	}{
		{"Skip", 0, func(text []byte) {
			r.Again(text)
			r.Skip()
			r.End()
		}},
		{"KeyBytes and TextBytes", 0, func(text []byte) {
			r.Again(text)
			for r.Object(); r.More(); {
				r.KeyBytes()
				r.TextBytes()
			}
		}},
		{"Key and Text", 3, func(text []byte) { // blocks
			r.Again(text)
			for r.Object(); r.More(); {
				r.Key()
				_ = r.Text()
			}
		}},
		{"PeekMember and PeekKeys", 0, func(text []byte) {
			r.Again(text)
			r.PeekMember("none")
			r.PeekKeys(wire.Key{Name: "none"}, wire.Key{Name: "other"})
		}},
		{"Marshal", 0, func(text []byte) {
			w.Reset(w.Bytes()[:0])
			w.Begin()
			for range text {
				w.Key(`,"key":`)
				w.Text("text")
				w.Key(`,"key2":`)
				w.Float(1.5)
			}
			w.End()
			w.Raw(text)
		}},
	} {
		for _, text := range [][]byte{small, large} {
			c.f(text)
			if r.Failed() || writeError(w) != nil {
				t.Fatal(c.name, errorOf(r), writeError(w))
			}
			if got := testing.AllocsPerRun(20, func() { c.f(text) }); got > c.most && (len(text) > 100 || got > 1) {
				t.Errorf("%s of %d bytes: %v allocations, want %v", c.name, len(text), got, c.most)
			}
		}
	}
}

func TestLargeRawValueIsCopiedOnce(t *testing.T) {
	text := []byte(`{"id":1,"name":"n","free":"` + strings.Repeat("x", 1<<20) + `","tags":["a","b"]}`)
	memory := doubling.Memory(func() {
		if err := codec.Unmarshal(text, new(flat)); err != nil {
			t.Fatal(err)
		}
	})
	if memory > 1<<20+64<<10 {
		t.Errorf("%d bytes", memory)
	}
	memory = doubling.Memory(func() {
		if err := codec.Unmarshal(text, new(flat), codec.NoCopy()); err != nil {
			t.Fatal(err)
		}
	})
	if memory > 64<<10 {
		t.Errorf("%d bytes with NoCopy", memory)
	}
}

// TestMarshalOwnsItsResult marshals texts of sizes around that of the largest reused buffer. A later
// call must not change the result, and a large text must not be copied.
func TestMarshalOwnsItsResult(t *testing.T) {
	for _, size := range []int{0, 500, 250 << 10, 256<<10 - 2, 256 << 10, 300 << 10, 1 << 20} {
		for _, end := range []string{"", "\n", "é"} {
			value := codec.StringScalar(strings.Repeat("x", size) + end)
			var text []byte
			memory := doubling.Memory(func() {
				var err error
				if text, err = codec.Marshal(value); err != nil {
					t.Fatal(err)
				}
			})
			want := strings.Clone(string(text))
			if _, err := codec.Marshal(codec.StringScalar(strings.Repeat("y", size+10))); err != nil {
				t.Fatal(err)
			}
			if got := string(text); got != want || got != `"`+strings.Repeat("x", size)+strings.Replace(end, "\n", `\n`, 1)+`"` {
				t.Errorf("%d bytes and %q: the result is wrong or was changed", size, end)
			}
			if !doubling.Race && size >= 300<<10 && memory > uint64(size)*5/4+64<<10 {
				t.Errorf("%d bytes and %q: allocated %d bytes", size, end, memory)
			}
		}
	}
}

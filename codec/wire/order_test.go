package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/doubling"
)

// wide is a type with 64 objects as members. Its methods are like those in generated code.
type wide struct {
	inner [64]open
	Extra wire.Extra
}

// open is a type without members.
type open struct{ Extra wire.Extra }

var membersOfWide = func() (m wire.Members) {
	for i := range 64 {
		m.Names = append(m.Names, fmt.Sprintf(`"m%d":`, i))
	}
	m.ID = 17
	return m
}()

func (v *wide) DecodeJSON(r *wire.Reader) {
	*v = wide{}
	o := r.Enter(&membersOfWide, &v.Extra)
	for i := o.Next(); i >= 0; i = o.Next() {
		if i == 64 {
			r.Extra(&v.Extra)
		} else {
			v.inner[i].DecodeJSON(r)
		}
	}
}

func (v *open) DecodeJSON(r *wire.Reader) {
	*v = open{}
	r.Object()
	for _, ok := r.NextKey(); ok; _, ok = r.NextKey() {
		r.Extra(&v.Extra)
	}
}

func (v *wide) EncodeJSON(w *wire.Writer) {
	start := w.Begin()
	for i := range v.inner {
		w.Key(fmt.Sprintf(`,"m%d":`, i))
		inner := w.Begin()
		w.EndExtra(inner, v.inner[i].Extra, nil)
	}
	w.EndExtra(start, v.Extra, &membersOfWide)
}

// The sender chooses the order of members. No order may make decoding take much more memory.
func TestMemoryIsIndependentOfMemberOrder(t *testing.T) {
	for _, n := range []int{64, 2000, 50_000} {
		for _, inner := range []string{`{}`, `{"x":1}`, `{"x":{"y":[]}}`} {
			known := func(i int) string { return fmt.Sprintf(`"m%d":%s`, i, inner) }
			after := `{` + many(n, ",", name) + "," + many(64, ",", known) + `}`
			mixed := `{` + many(n-64, ",", name) + "," + many(64, ",", func(i int) string { return known(i) + "," + name(n-64+i) }) + `}`
			if n == 64 {
				mixed = strings.Replace(mixed, "{,", "{", 1)
			}
			memory := func(text string) uint64 {
				return doubling.Memory(func() {
					var v wide
					if err := codec.Unmarshal([]byte(text), &v); err != nil || v.Extra.Len() != n {
						t.Fatal(v.Extra.Len(), err)
					}
				})
			}
			if a, b := memory(after), memory(mixed); b > 2*a+16<<10 {
				t.Errorf("%d members: %d bytes of memory, and %d with objects of %s in between", n, a, b, inner)
			}
		}
	}
}

// lists is a type whose required members are missing. It skips the members that are present.
type lists struct{ Extra wire.Extra }

func (v *lists) DecodeJSON(r *wire.Reader) {
	*v = lists{}
	o := r.Enter(&membersOfWide, &v.Extra)
	for i := o.Next(); i >= 0; i = o.Next() {
		r.Skip()
	}
	o.Require(64)
}

func TestObjectsMissingSameMembersShareExtra(t *testing.T) {
	for name, element := range map[string]string{"none": `{}`, "all but one": `{"m7":0}`, "in turn": `{},{"m7":0},{"m7":0,"m63":1}`} {
		text := []byte(`[` + many(5000, ",", func(int) string { return element }) + `]`)
		list := func(r *wire.Reader) []lists { return wire.DecodeList[lists](r) }
		all, err := codec.UnmarshalFunc(text, list)
		if err != nil {
			t.Fatal(err)
		}
		memory := doubling.Memory(func() { _, _ = codec.UnmarshalFunc(text, list) })
		if most := uint64(32 * len(all)); memory > most {
			t.Errorf("%s: %d bytes of memory for %d objects, want at most %d", name, memory, len(all), most)
		}
		all[0].Extra.SetAbsent(0) // must change this element only
		for i, v := range all[1:] {
			if element == `{}` && !v.Extra.Absent(7) || !v.Extra.Absent(0) {
				t.Fatalf("%s: element %d has lost its record of missing members", name, i+1)
			}
		}
	}
}

// Objects between unknown members do not change what is read into the Extra.
func TestExtraSurvivesNestedObjects(t *testing.T) {
	for n := range 40 {
		for _, size := range []int{1, 20, 300} {
			var b strings.Builder
			b.WriteByte('{')
			want := []string{}
			for i := range n {
				value := `"` + strings.Repeat("v", size) + `"`
				fmt.Fprintf(&b, `"u%d":%s,"m%d":{"x":%d,"in":{"y":{"z":[{"a":%[4]d}]}}},`, i, value, i, i)
				want = append(want, fmt.Sprintf(`"u%d":%s`, i, value))
			}
			b.WriteString(`"end":null}`)
			for _, opts := range [][]codec.Option{nil, {codec.NoCopy()}} {
				var v wide
				if err := codec.Unmarshal([]byte(b.String()), &v, opts...); err != nil {
					t.Fatal(err)
				}
				var got []string
				for name, raw := range v.Extra.All() {
					got = append(got, fmt.Sprintf(`"%s":%s`, name, raw))
				}
				if g, w := strings.Join(got, ","), strings.Join(append(want, `"end":null`), ","); g != w {
					t.Fatalf("%d members of %d bytes:\n got %s\nwant %s", n, size, g, w)
				}
				for i := range n {
					if x, _ := v.inner[i].Extra.Get("x"); string(x) != fmt.Sprint(i) {
						t.Fatalf("inner object %d has x %s", i, x)
					}
				}
				out, err := codec.Marshal(&v)
				if err != nil || codec.Valid(out) != nil || !strings.Contains(string(out), strings.Join(append(want, `"end":null`), ",")) {
					t.Fatalf("wrote %s, %v", out, err)
				}
			}
			again := strings.Replace(b.String(), `"end"`, `"u0"`, 1)
			var v wide
			if err := codec.Unmarshal([]byte(again), &v); (err == nil) != (n == 0) {
				t.Fatalf("a repeated name behind %d objects: %v", n, err)
			}
		}
	}
}

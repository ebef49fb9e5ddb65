package value_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/internal/doubling"
)

func TestWorkIsLinear(t *testing.T) {
	type item struct {
		N    int             `json:"n"`
		S    string          `json:"s"`
		Any  any             `json:"any"`
		Raw  json.RawMessage `json:"raw"`
		List []item          `json:"list"`
		Map  map[string]int  `json:"map"`
	}
	many := func(n int, f func(i int) string) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(f(i))
		}
		return b.String()
	}
	member := func(i int) string { return fmt.Sprintf(`"n%06d":%d`, i, i) }
	constant := func(text string) func(int) string { return func(int) string { return text } }
	for name, text := range map[string]func(n int) string{
		"unknown members":         func(n int) string { return `{` + many(n, member) + `}` },
		"members of a map":        func(n int) string { return `{"map":{` + many(n, member) + `}}` },
		"members in an interface": func(n int) string { return `{"any":{` + many(n, member) + `}}` },
		"member of a map twice":   func(n int) string { return `{"map":{` + many(n, member) + `,` + member(0) + `}}` },
		"known member in many cases": func(n int) string {
			return `{"n":1,` + many(n, func(i int) string { return fmt.Sprintf(`"N%d":1`, i) }) + `,"N":2}`
		},
		"deep value in an interface":       func(n int) string { return `{"any":` + strings.Repeat("[", n/8) + strings.Repeat("]", n/8) + `}` },
		"deep lists":                       func(n int) string { return strings.Repeat(`{"list":[`, n/16) + strings.Repeat("]}", n/16) },
		"deep lists with a wrong kind":     func(n int) string { return strings.Repeat(`{"list":[`, n/16) + `7` + strings.Repeat("]}", n/16) },
		"integers with a fraction":         func(n int) string { return `{"list":[` + many(n, constant(`{"n":1.0}`)) + `]}` },
		"integers, the last with fraction": func(n int) string { return `{"list":[` + many(n, constant(`{"n":1}`)) + `,{"n":1.0}]}` },
		"a wrong kind after a long list":   func(n int) string { return `{"list":[` + many(n, constant(`{"s":"a"}`)) + `,{"s":1}]}` },
		"an integer of many digits":        func(n int) string { return `{"n":` + strings.Repeat("7", 16*n) + `}` },
		"an integer of many zeros":         func(n int) string { return `{"n":1.` + strings.Repeat("0", 16*n) + `}` },
		"a fraction of many digits":        func(n int) string { return `{"n":1.` + strings.Repeat("7", 16*n) + `}` },
		"any number of many digits":        func(n int) string { return `{"any":` + strings.Repeat("7", 16*n) + `}` },
		"escapes":                          func(n int) string { return `{"s":"` + strings.Repeat(`\u00e9\n`, n) + `"}` },
	} {
		t.Run(name, func(t *testing.T) {
			doubling.Check(t, func(n int) func() {
				text := []byte(text(n))
				return func() {
					var v item
					if err := codec.Unmarshal(text, value.Of(&v), codec.MaxDepth(1<<30)); err != nil {
						return
					}
					if _, err := codec.Marshal(value.Of(&v)); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

// A list of float32 is an embedding, of thousands of numbers.
func TestFloat32ListCostsNoAllocationsPerNumber(t *testing.T) {
	var text strings.Builder
	var want []float32
	for i := range 2000 {
		n := float32(i) / 7
		want = append(want, n)
		fmt.Fprintf(&text, ", %v", n)
	}
	src := []byte("[" + text.String()[1:] + " ]")
	var got []float32
	decode := func() {
		if err := codec.Unmarshal(src, value.Of(&got)); err != nil {
			t.Fatal(err)
		}
	}
	decode()
	if !slices.Equal(got, want) {
		t.Error("the numbers differ")
	}
	if n := testing.AllocsPerRun(10, decode); n > 20 {
		t.Errorf("%v allocations", n)
	}
	for text, want := range map[string]string{`[1,"x"]`: "/1", `[1,1e99]`: "/1", `[[1]]`: "/0", `[null]`: "", `[]`: ""} {
		err := codec.Unmarshal([]byte(text), value.Of(&got))
		if e, failed := errors.AsType[*codec.Error](err); failed != (want != "") || failed && e.Pointer != want {
			t.Errorf("%s: got %v, want a fault at %q", text, err, want)
		}
	}
}

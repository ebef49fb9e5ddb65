package wire_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// exact returns s in a slice without spare capacity. The slice starts align bytes into its array,
// so that different values of align give different alignments.
func exact(s string, align int) []byte {
	b := append(make([]byte, align, align+len(s)), s...)
	return b[align:len(b):len(b)]
}

func TestIntegersOfEveryLength(t *testing.T) {
	for n := 1; n <= 25; n++ {
		for _, digit := range []string{"1", "9", "10"} {
			for _, sign := range []string{"", "-"} {
				text := sign + strings.Repeat(digit, n)[:n]
				value, _ := new(big.Int).SetString(text, 10)
				for _, end := range []string{"", ",", "}", "]", " ", "\n", " ,"} {
					r := newReader(exact(text+end, n%8))
					v, exactly := r.Int()
					if r.Failed() || r.Pos() != len(text) || exactly != value.IsInt64() || exactly && v != value.Int64() {
						t.Fatalf("%q: %d, %t at %d, %v", text+end, v, exactly, r.Pos(), errorOf(r))
					}
					r.Again(exact(text+end, n%8))
					if s := codec.ReadScalar(r, wire.ScalarInteger); s.String() != text || r.Pos() != len(text) {
						t.Fatalf("%q: scalar %v at %d, %v", text+end, s, r.Pos(), errorOf(r))
					}
					r.Again(exact(text+end, n%8))
					if r.Skip(); r.Failed() || r.Pos() != len(text) {
						t.Fatalf("%q: skipped to %d, %v", text+end, r.Pos(), errorOf(r))
					}
				}
			}
		}
	}
}

// A text that is cut short fails at its end, whichever way it is read.
func TestTruncatedTextFailsAtItsEnd(t *testing.T) {
	texts := []string{
		string(call), `{"m0":{"x":1},"u":"a\u65e5\n","m1":{},"m2" : {"y":[{"a":"b\\"},-1.5e10,true]} ,"\u006d3":{},"v":[],"m4":null}`,
		`[ [ ] , {"a":{"b":["` + strings.Repeat("long ", 30) + `é"]}},"\ud83d\ude00",false,null,-0,1e5 ]`,
	}
	for _, text := range texts {
		for n := range len(text) {
			data := exact(text[:n], n%8)
			want := codec.Valid(data)
			for _, opts := range [][]codec.Option{nil, {codec.NoCopy()}} {
				var v tree
				if err := codec.Unmarshal(data, &v, opts...); !samePlace(err, want) {
					t.Fatalf("%q: by tokens %v, raw %v", data, err, want)
				}
				for _, v := range []codec.Decoder{new(wide), new(record), new(flat), new(node)} {
					err := codec.Unmarshal(data, v, opts...)
					if err == nil || codec.Code(err) == -32700 && !samePlace(err, want) {
						t.Fatalf("%q as %T: %v, raw %v", data, v, err, want)
					}
				}
			}
			r := newReader(data)
			r.PeekMember("u")
			r.PeekText("u")
			r.PeekKeys(wire.Key{Name: "m0"}, wire.Key{Name: "v", Kinds: 1 << wire.KindArray})
			r.PeekPath(0, "m2", "y")
			r.PeekFirst(wire.Key{Name: "m0"})
			r.TextIs("u")
			codec.Locate(data, "/m2/y/0/a")
		}
	}
}

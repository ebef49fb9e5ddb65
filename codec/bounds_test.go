package codec

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// The tests here cover code that reads several bytes at a time, or that writes into capacity it has
// checked itself. They try every length and offset at which it could fail. Slices have no spare
// capacity, so that an access beyond the end panics.

// exact returns s in a slice without spare capacity. The slice starts align bytes into its array, so
// that different values of align give different alignments.
func exact(s string, align int) []byte {
	b := append(make([]byte, align, align+len(s)), s...)
	return b[align:len(b):len(b)]
}

// firstOf returns the index of the first byte of data at or after i for which stops returns true. It
// returns len(data) if there is none.
func firstOf(data []byte, i int, stops func(c byte) bool) int {
	for i < len(data) && !stops(data[i]) {
		i++
	}
	return i
}

func TestScannersStopAtTheSameByteAsSimpleOnes(t *testing.T) {
	things := []string{"", `"`, `\`, `\"`, `\\`, "\x00", "\x1f", "é", "\x80", "\xff", `":`, `" :`, `"\`, "\n", " ", ",", "}", "]", "[", "{", ":", "\x7f"}
	for n := range 110 {
		for at := 0; at <= n; at++ {
			for k, thing := range things {
				more := things[(k+at+n)%len(things)]
				data := exact(strings.Repeat("a", at)+thing+strings.Repeat("b", n-at)+more, (n+at)%8)
				for _, start := range []int{0, at / 2, len(data)} {
					ends := func(c byte) bool { return c == '"' || c == '\\' || c < ' ' }
					if got := plain(data, start); got >= 0 {
						want := firstOf(data, start, func(c byte) bool { return ends(c) || c >= utf8.RuneSelf })
						if got != want || data[got] != '"' {
							t.Fatalf("plain %q from %d: %d", data, start, got)
						}
					}
					if got := nameEnd(data, start); got >= 0 {
						want := firstOf(data, start, func(c byte) bool { return c == '"' || c == '\\' })
						if got != want || data[got] != '"' || data[got+1] != ':' {
							t.Fatalf("nameEnd %q from %d: %d", data, start, got)
						}
					}
					run := firstOf(data, start, ends)
					high := slices.ContainsFunc(data[start:run], func(c byte) bool { return c >= utf8.RuneSelf })
					if got, beyond := scanRun(data, start); got != run || high && !beyond {
						t.Fatalf("scanRun %q from %d: %d, %t, want %d, %t", data, start, got, beyond, run, high)
					}
				}
				i := at
				closed := false
				for i++; i < len(data) && !closed; i++ { // the first byte counts as the opening quote
					if closed = data[i] == '"'; data[i] == '\\' {
						i++
					}
				}
				if got, ok := skipString(data, at); at < len(data) && (got != min(i, len(data)) || ok != closed) {
					t.Fatalf("skipString %q from %d: %d, %t, want %d, %t", data, at, got, ok, i, closed)
				}
				if at < len(data) {
					want := firstOf(data, at+1, func(c byte) bool { return strings.IndexByte(" \t\n\r,:[]{}\"", c) >= 0 })
					if got := skipWord(data, at); got != want {
						t.Fatalf("skipWord %q from %d: %d, want %d", data, at, got, want)
					}
				}
			}
		}
	}
}

func TestPlainTextIsAppendedWithAnyRoom(t *testing.T) {
	for n := range 150 {
		for _, bad := range []int{-1, 0, n / 2, n - 9, n - 8, n - 7, n - 1} {
			s := strings.Repeat("x", n)
			if bad >= 0 && bad < n {
				s = s[:bad] + string([]byte{"\"\\\n\x80"[n%4]}) + s[bad+1:]
			}
			isBad := strings.Trim(s, "x") != ""
			for room := range n + 20 {
				for _, before := range []string{"", "{", `{"name":"`} {
					memory := bytes.Repeat([]byte{'#'}, len(before)+room+16)
					dst := append(memory[:0:len(before)+room], before...)
					out, ok := appendPlain(dst, s)
					want := before + s
					if isBad {
						want = before
					}
					if ok == isBad || string(out) != want || strings.Trim(string(memory[len(before)+room:]), "#") != "" {
						t.Fatalf("%q with room for %d behind %q: %q, %t, and behind it %q", s, room, before, out, ok, memory[len(before)+room:])
					}
				}
			}
		}
	}
}

func TestIntegersOfEveryLength(t *testing.T) {
	for n := 1; n <= 25; n++ {
		for _, digit := range []string{"1", "9", "10"} {
			for _, sign := range []string{"", "-"} {
				text := sign + strings.Repeat(digit, n)[:n]
				value, _ := new(big.Int).SetString(text, 10)
				for _, end := range []string{"", ",", "}", "]", " ", "\n", " ,"} {
					r := NewReader(exact(text+end, n%8))
					v, exactly := r.Int()
					if r.Failed() || r.pos != len(text) || exactly != value.IsInt64() || exactly && v != value.Int64() {
						t.Fatalf("%q: %d, %t at %d, %v", text+end, v, exactly, r.pos, r.Err())
					}
					r.Reset(exact(text+end, n%8))
					if s := r.Scalar(ScalarInteger); s.String() != text || r.pos != len(text) {
						t.Fatalf("%q: scalar %v at %d, %v", text+end, s, r.pos, r.Err())
					}
					r.Reset(exact(text+end, n%8))
					if r.Skip(); r.Failed() || r.pos != len(text) {
						t.Fatalf("%q: skipped to %d, %v", text+end, r.pos, r.Err())
					}
				}
			}
		}
	}
}

// A text that is cut short fails at its end, whichever way it is read.
func TestEveryPrefixOfAText(t *testing.T) {
	texts := []string{
		string(call), `{"m0":{"x":1},"u":"a\u65e5\n","m1":{},"m2" : {"y":[{"a":"b\\"},-1.5e10,true]} ,"\u006d3":{},"v":[],"m4":null}`,
		`[ [ ] , {"a":{"b":["` + strings.Repeat("long ", 30) + `é"]}},"\ud83d\ude00",false,null,-0,1e5 ]`,
	}
	for _, text := range texts {
		for n := range len(text) {
			data := exact(text[:n], n%8)
			want := Valid(data)
			for _, opts := range [][]Option{nil, {NoCopy()}} {
				var v tree
				if err := Unmarshal(data, &v, opts...); !samePlace(err, want) {
					t.Fatalf("%q: by tokens %v, raw %v", data, err, want)
				}
				for _, v := range []Decoder{new(wide), new(record), new(flat), new(node)} {
					err := Unmarshal(data, v, opts...)
					if err == nil || Code(err) == -32700 && !samePlace(err, want) {
						t.Fatalf("%q as %T: %v, raw %v", data, v, err, want)
					}
				}
			}
			r := NewReader(data)
			r.PeekMember("u")
			r.PeekText("u")
			r.PeekKeys(Key{Name: "m0"}, Key{Name: "v", Kinds: 1 << KindArray})
			r.PeekPath(0, "m2", "y")
			r.Leads(Key{Name: "m0"})
			r.TextIs("u")
			Locate(data, "/m2/y/0/a")
		}
	}
}

// Copies that share a buffer keep their contents when more copies are added to the buffer.
func TestPiecesKeepTheirContents(t *testing.T) {
	const seed = 3
	random := rand.New(rand.NewPCG(seed, seed))
	sizes := []int{0, 1, 7, 8, 9, 63, smallCopy - 1, smallCopy, smallCopy + 1, pieceSize / 3, pieceSize - 1, pieceSize, pieceSize + 1, maxPiece + 1}
	for range 200 {
		var p pieces
		type copied struct {
			got  func() string
			want string
		}
		var all []copied
		var texts [3][]byte
		var wants [3]string
		var own [3]bool
		for i := range 300 {
			size := sizes[random.IntN(len(sizes))]
			if random.IntN(3) > 0 {
				size = random.IntN(40)
			}
			from := bytes.Repeat([]byte{byte('a' + i%26)}, size)
			want := string(from)
			switch random.IntN(4) {
			case 0:
				s := p.string(from)
				all = append(all, copied{func() string { return s }, want})
			case 1:
				raw := p.raw(from)
				if cap(raw) > len(raw) && len(raw) <= smallCopy {
					t.Fatalf("seed %d: a small copy has spare capacity", seed)
				}
				all = append(all, copied{func() string { return string(raw) }, want})
			default:
				k := random.IntN(len(texts))
				if random.IntN(10) == 0 { // the text is shared from now on
					text := texts[k]
					all = append(all, copied{func() string { return string(text) }, wants[k]})
					own[k] = false
				}
				texts[k] = p.extend(texts[k], own[k], from)
				own[k], wants[k] = true, wants[k]+want
			}
			clear(from)
			if random.IntN(40) == 0 {
				p.more = 0
			}
		}
		for k := range texts {
			all = append(all, copied{func() string { return string(texts[k]) }, wants[k]})
		}
		for i, c := range all {
			if c.got() != c.want {
				t.Fatalf("seed %d: copy %d of %d bytes has changed", seed, i, len(c.want))
			}
		}
	}
}

// nameSet.add reports whether the name is new for its object. It does so at every size of the set,
// and after a reset.
func TestNameSetAtEverySize(t *testing.T) {
	var s nameSet
	for n := range 300 {
		had := map[string]bool{}
		for i := range n {
			object, name := uint32(1+i%7), fmt.Sprint("n", i*i%97)
			key := fmt.Sprint(object, name)
			if s.add(object, []byte(name)) == had[key] {
				t.Fatalf("%d names: %s is new: %t", n, key, had[key])
			}
			had[key] = true
		}
		s.reset()
	}
	seen := map[uint64]string{}
	for n := range 9 { // names shorter than eight bytes have distinct marks; longer ones are compared
		for i := range 400 {
			name := strings.Repeat(string(rune('a'+i%20)), n)
			if n > 1 {
				name = name[:n-2] + string(rune('a'+i/20)) + string(rune('a'+i%3))
			}
			for behind := range 9 {
				data := exact(name+strings.Repeat("#", behind), n%8)
				mark := nameMark(data, 0, len(name))
				if other, ok := seen[mark]; ok && other != name && len(name) < 8 {
					t.Fatalf("%q and %q have the same mark", name, other)
				}
				seen[mark] = name
			}
		}
	}
}

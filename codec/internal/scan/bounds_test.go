package scan

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// The tests here cover code that reads several bytes at a time, or that writes into capacity it has
// checked itself. They try every length and offset at which it could fail. Slices have no spare
// capacity, so that an access beyond the end panics.

// exact returns s in a slice without spare capacity. The slice starts align bytes into its array,
// so that different values of align give different alignments.
func exact(s string, align int) []byte {
	b := append(make([]byte, align, align+len(s)), s...)
	return b[align:len(b):len(b)]
}

// firstOf returns the index of the first byte of data at or after i for which stops returns true.
// It returns len(data) if there is none.
func firstOf(data []byte, i int, stops func(c byte) bool) int {
	for i < len(data) && !stops(data[i]) {
		i++
	}
	return i
}

func TestScannersAgreeWithSimpleLoops(t *testing.T) {
	things := []string{"", `"`, `\`, `\"`, `\\`, "\x00", "\x1f", "é", "\x80", "\xff", `":`, `" :`, `"\`, "\n", " ", ",", "}", "]", "[", "{", ":", "\x7f"}
	for n := range 110 {
		for at := 0; at <= n; at++ {
			for k, thing := range things {
				more := things[(k+at+n)%len(things)]
				data := exact(strings.Repeat("a", at)+thing+strings.Repeat("b", n-at)+more, (n+at)%8)
				for _, start := range []int{0, at / 2, len(data)} {
					ends := func(c byte) bool { return c == '"' || c == '\\' || c < ' ' }
					if got := Plain(data, start); got >= 0 {
						want := firstOf(data, start, func(c byte) bool { return ends(c) || c >= utf8.RuneSelf })
						if got != want || data[got] != '"' {
							t.Fatalf("Plain %q from %d: %d", data, start, got)
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
					if got, beyond := Run(data, start); got != run || high && !beyond {
						t.Fatalf("Run %q from %d: %d, %t, want %d, %t", data, start, got, beyond, run, high)
					}
				}
				i := at
				closed := false
				for i++; i < len(data) && !closed; i++ { // the first byte counts as the opening quote
					if closed = data[i] == '"'; data[i] == '\\' {
						i++
					}
				}
				if got, ok := SkipString(data, at); at < len(data) && (got != min(i, len(data)) || ok != closed) {
					t.Fatalf("SkipString %q from %d: %d, %t, want %d, %t", data, at, got, ok, i, closed)
				}
				if at < len(data) {
					want := firstOf(data, at+1, func(c byte) bool { return strings.IndexByte(" \t\n\r,:[]{}\"", c) >= 0 })
					if got := SkipWord(data, at); got != want {
						t.Fatalf("SkipWord %q from %d: %d, want %d", data, at, got, want)
					}
				}
			}
		}
	}
}

func TestAppendPlainWithAnyCapacity(t *testing.T) {
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
					out, ok := AppendPlain(dst, s)
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

// nameSet.add reports whether the name is new for its object. It does so at every size of the set,
// and after a reset.
func TestNameSetOfEverySize(t *testing.T) {
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
			mark := nameMark(exact(name, n%8))
			if other, ok := seen[mark]; ok && other != name && len(name) < 8 {
				t.Fatalf("%q and %q have the same mark", name, other)
			}
			seen[mark] = name
		}
	}
}

// TestRepeatedNameOfEveryLength writes a name twice, in every pair of forms, at every distance from
// the end of the text. Then it changes one byte of the second one.
func TestRepeatedNameOfEveryLength(t *testing.T) {
	check := func(text string, want int, wantErr error) {
		t.Helper()
		c := Checker{MaxDepth: 8, MaxString: 1 << 20}
		if end, err := c.Value(exact(text, len(text)%8), 0, 0); end != want || err != wantErr {
			t.Fatalf("%s: got %d, %v; want %d, %v", text, end, err, want, wantErr)
		}
	}
	for n := range 34 {
		name := "0123456789abcdefghijklmnopqrstuvwxyz"[:n]
		forms := []string{`"` + name + `":`, `"` + name + "\" :\n"} // plain, and with white space behind it
		if n > 0 {
			forms = append(forms, `"\u0030`+name[1:]+`":`)
		}
		for _, first := range forms {
			for _, second := range forms {
				for space := range 12 {
					before := "{" + first + `1,"other":2,`
					text := before + second + "3}" + strings.Repeat(" ", space)
					check(text, len(before), jsonfault.Duplicate)
				}
			}
			for i := range n {
				text := "{" + first + `1,"` + name[:i] + "#" + name[i+1:] + `":3}`
				check(text, len(text), nil)
			}
		}
		beyond := "{\"" + name + "é\":1,"
		check(beyond+"\""+name+"é\":2}", len(beyond), jsonfault.Duplicate)
		check(beyond+"\""+name+"è\":2}", len(beyond)+len(name)+7, nil)
	}
}

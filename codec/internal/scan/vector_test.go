package scan

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec/internal/slow"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// checkText compares the results of the fast code for a text, and for the same bytes as string
// content, with those of package slow. Data has the bytes of text; the caller chooses the alignment
// of both. Room is the buffer to write to.
func checkText(t *testing.T, text string, data, room []byte) {
	t.Helper()
	end, err := slowString(`"` + text)
	end--
	ascii, escaped := true, false
	for i := range max(0, end) {
		ascii = ascii && data[i] < utf8.RuneSelf
		escaped = escaped || data[i] == '\\'
	}
	got, beyond, sawEscape, gotErr := scanContent(data, 0)
	if gotErr == nil {
		got++
	}
	if beyond {
		last := got
		if gotErr == nil {
			last--
		}
		if bad := BadUTF8(data[:last]); bad >= 0 {
			got, gotErr = bad, jsonfault.UTF8
		}
	}
	if got != end || gotErr != err || !ascii && !beyond || err == nil && escaped != sawEscape {
		t.Fatalf("%q ends at %d with %v, want %d with %v; beyond ASCII %t, escaped %t", text, got, gotErr, end, err, beyond, sawEscape)
	}
	plain := -1
	if err == nil && ascii && !escaped {
		plain = end - 1
	}
	if last := Plain(data, 0); last != plain {
		t.Fatalf("%q: plain up to %d, want %d", text, last, plain)
	}
	run := 0 // simple loop
	for run < len(data) && data[run] >= ' ' && data[run] != '"' && data[run] != '\\' {
		run++
	}
	wantBeyond := bytes.ContainsFunc(data[:run], func(r rune) bool { return r >= utf8.RuneSelf })
	if end, beyond := Run(data, 0); end != run || wantBeyond && !beyond {
		t.Fatalf("%q: Run returns %d, %t, want %d, %t", text, end, beyond, run, wantBeyond)
	}
	last, closed := 0, false // simple loop
	for ; last < len(data) && !closed; last++ {
		closed = data[last] == '"'
		if data[last] == '\\' {
			last++
		}
	}
	if end, ok := SkipString(data, -1); end != min(last, len(data)) || ok != closed {
		t.Fatalf("%q: SkipString returns %d, %t, want %d, %t", text, end, ok, last, closed)
	}
	if valid := utf8.ValidString(text); valid != (BadUTF8(data) < 0) {
		t.Fatalf("%q: bad UTF-8 at %d", text, BadUTF8(data))
	} else if vectors && len(data) >= longContent && (utf8Bytes(data) != valid || utf8Text(text) != valid) {
		t.Fatalf("%q: utf8Bytes or utf8Text does not return %t", text, valid)
	}

	// Write it into exactly the room needed, into less, and into more.
	want := slow.Escape(text)
	for _, n := range []int{len(want), len(want) / 2, len(room)} {
		dst := room[len(room)-min(n, len(room)):]
		out, ok := AppendText(dst[:0], text)
		if ok != utf8.ValidString(text) || ok && string(out) != want {
			t.Fatalf("%q with room for %d was written as %q, %t; want %q", text, n, out, ok, want)
		}
	}
}

// TestOddCharactersAtEveryPosition puts each element of slow.Odd at every position of texts of many
// lengths and alignments.
func TestOddCharactersAtEveryPosition(t *testing.T) {
	for _, filler := range []string{"x", "é"} {
		for _, thing := range slow.Odd {
			full := strings.Repeat(filler, 200/len(filler))
			for n := 1; n <= len(full); n += 7 {
				for at := 0; at <= n; at++ {
					if filler != "x" && (at+n)%2 != 0 {
						continue // half a character is tested elsewhere
					}
					text := full[:at] + thing + full[at:n]
					align := (at + n) % 64
					data := append(make([]byte, align, align+len(text)+1), text...)
					room := make([]byte, 2*len(text)+1000+align)
					checkText(t, text, data[align:], room)
				}
			}
		}
	}
}

// TestPlainRunsBetweenEscapes tests plain runs of all lengths between escapes.
func TestPlainRunsBetweenEscapes(t *testing.T) {
	for _, thing := range []string{`"`, `\\`, `\`, "\x01", "\n", `\n`, `\"`, `\u0041`} {
		for run := range 140 {
			text := strings.Repeat(strings.Repeat("x", run)+thing, 1000/(run+1)+2)
			checkText(t, text, []byte(text), make([]byte, 7*len(text)))
			text += `"`
			checkText(t, text, []byte(text), make([]byte, 7*len(text)))
		}
	}
}

// TestAppendWritesOnlyWithinCapacity checks that the memory behind the buffer does not change.
func TestAppendWritesOnlyWithinCapacity(t *testing.T) {
	for _, text := range []string{strings.Repeat("ab\"cdefghi\n", 60), strings.Repeat("\x01", 300), strings.Repeat("x", 300) + "\x01"} {
		want := slow.Escape(text)
		for room := range len(want) + 700 {
			memory := bytes.Repeat([]byte{'#'}, room+500)
			out, ok := AppendText(memory[:0:room], text)
			if !ok || string(out) != want || strings.Trim(string(memory[room:]), "#") != "" {
				t.Fatalf("with room for %d: %q, and behind it %q", room, out, memory[room:])
			}
		}
	}
}

// TestAllPairsOfBytes tests every pair of bytes, with up to two continuation bytes after it, at the
// start of a block, inside of one, and at the end of the text.
func TestAllPairsOfBytes(t *testing.T) {
	for _, at := range []int{0, 31, 40, 63, 95} {
		text := []byte(strings.Repeat("x", at) + "....." + strings.Repeat("x", 96-at))
		for pair := range 1 << 16 {
			for more := range 3 {
				copy(text[at:], "xxxxx")
				text[at], text[at+1] = byte(pair>>8), byte(pair)
				copy(text[at+2:at+2+more], "\xbf\xbf")
				end := len(text)
				if pair%2 == 0 && at > 60 {
					end = at + 2 + more
				}
				if bad := BadUTF8(text[:end]); (bad < 0) != utf8.Valid(text[:end]) {
					t.Fatalf("%q: bad UTF-8 at %d", text[:end], bad)
				}
			}
		}
	}
}

func FuzzLongText(f *testing.F) {
	for i, thing := range slow.Odd {
		f.Add(thing, uint8(i*5), uint8(i))
	}
	f.Fuzz(func(t *testing.T, s string, before, times uint8) {
		if len(s) > 1000 {
			return
		}
		text := strings.Repeat("z", int(before)) + strings.Repeat(s, 1+int(times)%16)
		for _, text := range []string{text, text + `"`, text + strings.Repeat("~", 100)} {
			checkText(t, text, []byte(text), make([]byte, len(text)+100))
		}
	})
}

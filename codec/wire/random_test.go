package wire_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/internal/slow"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// randomRuns returns the number of random inputs to try, and the seed to make them from. The
// environment variables MCPWIRE_RANDOM and MCPWIRE_SEED set them; the defaults are few and 1.
func randomRuns(t *testing.T, few int) (count int, seed uint64) {
	t.Helper()
	count, seed = few, 1
	var err error
	if text := os.Getenv("MCPWIRE_RANDOM"); text != "" {
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatalf("MCPWIRE_RANDOM: %v", err)
		}
	}
	if text := os.Getenv("MCPWIRE_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("MCPWIRE_SEED: %v", err)
		}
	}
	return count, seed
}

// randomContent appends random string content to b: plain text, escapes, characters beyond ASCII,
// and sometimes bytes that are not allowed in a string.
func randomContent(random *rand.Rand, b []byte) []byte {
	size := random.IntN(80)
	switch random.IntN(8) {
	case 0:
		size = random.IntN(1500)
	case 1, 2:
		size = random.IntN(300)
	}
	style := random.IntN(6)
	for size += len(b); len(b) < size; {
		switch n := random.IntN(20); {
		case style == 0 && n < 10, style == 1 && n < 19:
			b = append(b, "the quick brown fox jumps over the lazy dog"[:random.IntN(44)]...)
		case style == 2 || n < 4:
			b = append(b, `\n\t\"\\\/\b\f\r`[2*random.IntN(8):][:2]...)
		case style == 3 || n < 8:
			b = append(b, []string{`\u0041`, `\u00e9`, `\u65e5`, `\uD83D\ude00`, `\u0000`, `\u001f`, `\uffff`, `\ud800\udc00`, `\udbff\uDFFF`}[random.IntN(9)]...)
		case style == 4 || n < 12:
			b = append(b, []string{"é", "ф", "日本", "😀", "\u0080", "\u07ff", "\u0800", "\uffff", "\U0010ffff"}[random.IntN(9)]...)
		case n < 18:
			b = append(b, byte(' '+random.IntN(95)))
		case random.IntN(12) > 0: // most strings are well formed
		default:
			b = append(b, slow.Odd[random.IntN(len(slow.Odd))]...)
		}
	}
	return b
}

// TestStringsAgreeWithEncodingJSON compares the strings read and written with those of
// encoding/json, and with code that processes single bytes. It uses buffers of many capacities and
// alignments, and both new and reused Readers and Writers.
func TestStringsAgreeWithEncodingJSON(t *testing.T) {
	count, seed := randomRuns(t, 20_000)
	random := rand.New(rand.NewPCG(seed, 10))
	kept, keptWriter := newReader(nil), wire.NewWriter(nil)
	var memory, room []byte
	good := 0
	for i := range count {
		align := random.IntN(64)
		memory = append(memory[:0], `################################################################`[:align]...)
		memory = append(randomContent(random, append(memory, '"')), '"')
		text := string(memory[align:])
		data := memory[align:len(memory):len(memory)]
		end, slowErr := slowString(text)
		whole := slowErr == nil && end == len(text)
		var want string
		if err := json.Unmarshal(data, &want); whole && err != nil {
			t.Fatalf("seed %d, %d: %q: encoding/json: %v", seed, i, text, err)
		}

		capacity := i % 301
		fresh := newReader(data)
		fresh.SetScratch(capacity)
		kept.Again(data)
		for which, r := range []*wire.Reader{fresh, kept} {
			var got string
			switch random.IntN(5) {
			case 0:
				got = r.Text()
			case 1:
				got = string(r.TextBytes())
			case 2:
				got, _ = codec.ReadScalar(r, wire.ScalarString).Text()
			case 3:
				mark := r.Checkpoint()
				r.Skip()
				if !r.Failed() {
					r.Rewind(mark)
				}
				got = r.Text()
			case 4:
				start, end, escaped := r.NameSpan()
				if r.Failed() && whole { // there is no colon
					r.Rewind(wire.Checkpoint{})
					start, end, escaped = 1, len(text)-1, strings.IndexByte(text, '\\') >= 0
					r.SetPos(len(text))
				}
				if got = text[start:end]; escaped {
					got = string(r.Unescape(data[start:end]))
				}
			}
			r.End()
			if whole != (errorOf(r) == nil) || whole && got != want {
				t.Fatalf("seed %d, %d, Reader %d, a buffer of %d bytes: %q: got %q, %v; want %q", seed, i, which, capacity, text, got, errorOf(r), want)
			}
		}
		if !whole {
			want = text // may not be UTF-8
		} else {
			good++
		}

		wantText := slow.Escape(want)
		if len(room) < 7*len(want)+400 {
			room = make([]byte, 2*(7*len(want)+400))
		}
		before := room[:0:min(capacity+random.IntN(2)*random.IntN(len(wantText)+50), len(room))]
		keptWriter.Reset(keptWriter.Buf()[:0])
		for which, w := range []*wire.Writer{wire.NewWriter(before), keptWriter} {
			if random.IntN(2) == 0 {
				w.Text(want)
			} else {
				w.Begin()
				w.KeyText(`,"":"`, want)
				if writeError(w) == nil {
					w.SetBuf(w.Buf()[len(`{"":`):])
				}
			}
			if valid := utf8.ValidString(want); valid != (writeError(w) == nil) || valid && string(w.Buf()) != wantText {
				t.Fatalf("seed %d, %d, Writer %d with room for %d: %q was written as %q, %v", seed, i, which, cap(before), want, w.Buf(), writeError(w))
			}
		}
	}
	if good < count/2 {
		t.Errorf("only %d of %d strings are well formed", good, count)
	}
	t.Logf("%d strings, %d of them well formed, seed %d", count, good, seed)
}

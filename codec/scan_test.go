package codec

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// escapeShapes are endings of string content that need different amounts of room in the buffer: the
// empty string, short escapes, escaped characters of one to four bytes, and several of these after
// runs of plain text.
var escapeShapes = []string{
	``, `\n`, `\u0041`, `\u00e9`, `\u65e5`, `\ud83d\ude00`, `é日😀`,
	`\nab\n1234567\u65e5`, `\n\u65e5\n\u65e5`, `\u65e5\u672c\u8a9e`, `\n1234567\ud83d\ude00`,
	`\n\n\n\n\n\n\n\n\u65e5`, `\n12345678\u65e5\n1234567\u65e5\n123456\u65e5`,
}

// TestDecodeContentFitsEveryBuffer compares decodeContent with encoding/json. It uses buffers of
// every capacity up to 300 bytes, at three fill levels, with escapes at many distances from the end
// of the buffer.
func TestDecodeContentFitsEveryBuffer(t *testing.T) {
	for _, shape := range escapeShapes {
		for lead := range 24 {
			content := strings.Repeat("a", lead) + shape
			var want string
			if err := json.Unmarshal([]byte(`"`+content+`"`), &want); err != nil {
				t.Fatal(err)
			}
			data := []byte(content + `"`)
			for capacity := range 301 {
				for _, filled := range []int{0, min(7, capacity), capacity} {
					dst := []byte(strings.Repeat("x", filled))
					out, end, _, err := decodeContent(append(make([]byte, 0, capacity), dst...), data, 0)
					if err != nil || end != len(content) || string(out) != string(dst)+want {
						t.Fatalf("%q behind %d of %d bytes: got %q, %d, %v; want %q, %d", content, filled, capacity, out, end, err, want, len(content))
					}
				}
			}
		}
	}
}

// TestReaderDecodesTextWithAnyScratch decodes prose with many escapes, such as encoders that write
// only ASCII produce. The Readers have scratch buffers of every capacity up to 300 bytes, as if left
// over from an earlier message.
func TestReaderDecodesTextWithAnyScratch(t *testing.T) {
	words := []string{
		"the", "file", `\u0444\u0430\u0439\u043b`, `\u65e5\u672c\u8a9e`, "server", `\u2014`, `na\u00efve`, "tool,", `\ud83d\ude00`,
		`\n`, `\"x\"`, `it\u2019s`, `\n- `, "é", "日本語", `\\`, `\t`,
	}
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	for capacity := range 301 {
		for range 20 {
			var b strings.Builder
			b.WriteByte('"')
			for size := random.IntN(600); b.Len() < size; {
				b.WriteString(words[random.IntN(len(words))])
				b.WriteString(strings.Repeat(" ", random.IntN(10)))
			}
			b.WriteByte('"')
			text := b.String()
			var want string
			if err := json.Unmarshal([]byte(text), &want); err != nil {
				t.Fatal(err)
			}
			r := NewReader([]byte(text))
			r.scratch = make([]byte, 0, capacity)
			got := r.Text()
			if r.End(); r.Err() != nil || got != want {
				t.Fatalf("seed %d, a buffer of %d bytes, %s: got %q, %v; want %q", seed, capacity, text, got, r.Err(), want)
			}
		}
	}
}

package wire_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestReaderDecodesTextWithAnyScratch decodes prose with many escapes, such as encoders that write
// only ASCII produce. The Readers have scratch buffers of every capacity up to 300 bytes, as if
// left over from an earlier message.
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
			r := newReader([]byte(text))
			r.SetScratch(capacity)
			got := r.Text()
			if r.End(); errorOf(r) != nil || got != want {
				t.Fatalf("seed %d, a buffer of %d bytes, %s: got %q, %v; want %q", seed, capacity, text, got, errorOf(r), want)
			}
		}
	}
}

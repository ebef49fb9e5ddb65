package scan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec/internal/slow"
)

// TestDecodeContentFitsEveryBuffer compares DecodeContent with encoding/json. It uses buffers of
// every capacity up to 300 bytes, at three fill levels, with escapes at many distances from the end
// of the buffer.
func TestDecodeContentFitsEveryBuffer(t *testing.T) {
	for _, shape := range slow.EscapeShapes {
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
					out, end, _, err := DecodeContent(append(make([]byte, 0, capacity), dst...), data, 0)
					if err != nil || end != len(content) || string(out) != string(dst)+want {
						t.Fatalf("%q behind %d of %d bytes: got %q, %d, %v; want %q, %d", content, filled, capacity, out, end, err, want, len(content))
					}
				}
			}
		}
	}
}

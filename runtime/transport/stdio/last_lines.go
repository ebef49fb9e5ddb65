package stdio

import (
	"bytes"
	"strings"
	"sync"
)

// maxLast is how many bytes of standard error are held for an error message.
const maxLast = 1 << 10

// lastLines holds the end of the text that is written to it.
type lastLines struct {
	mu   sync.Mutex
	text []byte
	cut  bool // the beginning was dropped
}

func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := p[max(0, len(p)-maxLast):]
	l.cut = l.cut || len(l.text)+len(p) > maxLast
	l.text = append(l.text[max(0, len(l.text)+len(end)-maxLast):], end...)
	return len(p), nil
}

// String returns the last lines. It omits an incomplete first line, unless there is no other.
func (l *lastLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := bytes.TrimSpace(l.text)
	if _, rest, found := bytes.Cut(text, []byte("\n")); found && l.cut {
		text = rest
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

package mcpgo

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLineReader(t *testing.T) {
	long := strings.Repeat("x", maxCancelled)
	text := "one\n\n" + long + "\n" + long + "y\ntwo\nunfinished"
	for name, in := range map[string]io.Reader{"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text))} {
		var lines []string
		got, err := io.ReadAll(&lineReader{Reader: in, line: func(line []byte) { lines = append(lines, string(line)) }})
		if string(got) != text || err != nil {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
		if want := []string{"one", "", long, "two"}; !slices.Equal(lines, want) {
			t.Errorf("%s: got %d lines, want %d: %.200q", name, len(lines), len(want), lines)
		}
	}
}

package printable

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
)

func TestTextCannotMoveCursor(t *testing.T) {
	for _, test := range []struct{ in, text, line string }{
		{"plain", "plain", "plain"},
		{"Grüße, 世界 👩‍🚀", "Grüße, 世界 👩‍🚀", "Grüße, 世界 👩‍🚀"},
		{"a\n\tb\r\nc", "a\n\tb\nc", "a  b c"},
		{"x\x1b[2Ky", `x\x1b[2Ky`, `x\x1b[2Ky`},
		{"x\x1b]0;t\ay\x7f", `x\x1b]0;t\ay\x7f`, `x\x1b]0;t\ay\x7f`},
		{"over\rwritten\b", `over\rwritten\b`, `over\rwritten\b`},
		{"\u009b2J", `\u009b2J`, `\u009b2J`},
		{"exe\u202etxt\u2066\u200f", `exe\u202etxt\u2066\u200f`, `exe\u202etxt\u2066\u200f`},
		{"a\u2028b\ufeff\u200b\U000e0041", `a\u2028b\ufeff\u200b\U000e0041`, `a\u2028b\ufeff\u200b\U000e0041`},
		{"\xff\xc3", "\ufffd\ufffd", "\ufffd\ufffd"},
	} {
		if got := Text(test.in); got != test.text {
			t.Errorf("Text(%q) is %q, want %q", test.in, got, test.text)
		}
		if got := Line(test.in); got != test.line {
			t.Errorf("Line(%q) is %q, want %q", test.in, got, test.line)
		}
		for name, in := range map[string]io.Reader{"at once": strings.NewReader(test.in), "byte by byte": iotest.OneByteReader(strings.NewReader(test.in))} {
			var out strings.Builder
			io.Copy(struct{ io.Writer }{NewWriter(&out)}, in)
			if got := out.String(); got != strings.TrimSuffix(test.text, "\ufffd") && got != test.text { // the last character is incomplete
				t.Errorf("%q written %s is %q, want %q", test.in, name, got, test.text)
			}
		}
	}
	for r := range unicode.MaxRune {
		if s := string(r); unicode.IsControl(r) && r != '\n' && r != '\t' && strings.Contains(Text(s), s) {
			t.Errorf("%U is not escaped", r)
		}
	}
}

// A server may send an error of any length.
func TestLongErrorIsTruncated(t *testing.T) {
	text := "x" + strings.Repeat("é\n", 1<<20)
	err := errors.New(text)
	line := Args([]any{err})[0].(string)
	for _, got := range []string{Error(err), strings.ReplaceAll(line, " ", "\n")} {
		start, _, cut := strings.Cut(got, "…")
		if !cut || len(got) > 20_000 || len(start) < 16_000 || !strings.HasPrefix(text, start) {
			t.Errorf("%d bytes, ending in %q", len(got), got[max(0, len(got)-100):])
		}
	}
	if got := Error(errors.New("a\nb\x1b")); got != "a\nb\\x1b" {
		t.Errorf("a short error: %q", got)
	}
}

func TestArgsHaveNoLineBreaks(t *testing.T) {
	got := fmt.Sprintf("%s|%v|%d\n", Args([]any{"a\nb", errors.New("c\x1b\nd"), 7})...)
	if want := `a b|c\x1b d|7` + "\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

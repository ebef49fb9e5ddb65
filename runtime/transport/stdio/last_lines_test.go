package stdio

import (
	"strings"
	"testing"
)

func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		writes []string
		want   string
	}{
		{nil, ""},
		{[]string{"one\n", "two", "\n\n"}, "one\ntwo"},
		{[]string{strings.Repeat("x", maxLast), "\nend\n"}, "end"},
		{[]string{"first\n" + strings.Repeat("x\n", maxLast)}, strings.TrimSpace(strings.Repeat("x\n", maxLast/2-1))},
		{[]string{strings.Repeat("x", 3*maxLast)}, strings.Repeat("x", maxLast)},
		{[]string{"\xff"}, "\uFFFD"},
	} {
		var l lastLines
		for _, text := range test.writes {
			if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("wrote %d, %v", n, err)
			}
			if len(l.text) > maxLast {
				t.Errorf("%d bytes are held", len(l.text))
			}
		}
		if got := l.String(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

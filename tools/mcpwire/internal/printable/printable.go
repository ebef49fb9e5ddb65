// Package printable makes text of other programs safe to show at a terminal: it can neither move the cursor, nor change
// what stands elsewhere, nor hide or reorder its own characters.
package printable

import (
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal, or a Writer for one.
func IsTerminal(w io.Writer) bool {
	if p, ok := w.(*Writer); ok {
		w = p.to
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Text returns s with each character that is not shown as it is in the form of an escape such as \x1b or \u202e, except
// line feeds and tabs. Line breaks of Windows become line feeds, and bytes that are not UTF-8 U+FFFD.
func Text(s string) string {
	if !strings.ContainsFunc(s, hidden) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range strings.ReplaceAll(s, "\r\n", "\n") {
		switch {
		case r == '\n' || r == '\t' || !hidden(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// Line returns s as [Text] does, in one line: a space stands for each line feed and tab.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, Text(s))
}

// hidden reports whether a character is not shown as it is: a control character, one that changes the direction of text,
// one without width, or one that separates lines. Joiners are part of words in some scripts.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\u200c' || r == '\u200d':
		return false
	case unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029', r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0':
		return true
	}
	return unicode.IsControl(r)
}

// Writer passes on what is written to it as [Text] makes it. It may be used by several goroutines.
type Writer struct {
	to io.Writer

	mu   sync.Mutex
	part []byte // the beginning of a character whose end has not come
}

// NewWriter returns a Writer to a terminal.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Raw returns what w writes to, and w itself if that is no Writer. It is for text that holds nothing of other programs,
// and moves the cursor.
func Raw(w io.Writer) io.Writer {
	if p, ok := w.(*Writer); ok {
		return p.to
	}
	return w
}

// Write writes p, but for a character at its end that is not whole.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := append(w.part, p...)
	end := len(text)
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if utf8.RuneStart(text[len(text)-n]) {
			if !utf8.FullRune(text[len(text)-n:]) {
				end = len(text) - n
			}
			break
		}
	}
	if end == len(text) && end > 0 && text[end-1] == '\r' {
		end-- // a line feed may follow
	}
	shown := Text(string(text[:end]))
	w.part = append([]byte(nil), text[end:]...)
	if _, err := io.WriteString(w.to, shown); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Args returns the arguments of a format in which each text, error and Stringer is one line.
func Args(args []any) []any {
	list := make([]any, len(args))
	for i, a := range args {
		switch a.(type) {
		case error, fmt.Stringer:
			list[i] = Line(fmt.Sprint(a))
			continue
		}
		if list[i] = a; reflect.ValueOf(a).Kind() == reflect.String {
			list[i] = Line(fmt.Sprint(a))
		}
	}
	return list
}

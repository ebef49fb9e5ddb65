// Package printable makes text from other programs safe to show on a terminal. The result cannot
// move the cursor, change other text on the screen, or hide or reorder its own characters.
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

// Text returns s with each control or invisible character other than line feeds and tabs replaced
// by an escape such as \x1b or \u202e. If it replaces a character, it also replaces \r\n by \n, and
// bytes that are not UTF-8 by U+FFFD.
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

// maxError is the maximum length of the text of an error, in bytes.
const maxError = 16 << 10

// Error returns the text of err, as [Text] does. A server may send an error of any length: Error
// truncates it after 16 KiB.
func Error(err error) string {
	text := err.Error()
	if len(text) <= maxError {
		return Text(text)
	}
	end := maxError
	for !utf8.RuneStart(text[end]) && end > maxError-utf8.UTFMax {
		end--
	}
	return fmt.Sprintf("%s\u2026 (%d more bytes)", Text(text[:end]), len(text)-end)
}

// Line is like [Text], and also replaces each line feed and tab with a space.
func Line(s string) string {
	return oneLine(Text(s))
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, s)
}

// hidden reports whether r is a control character, changes the direction of text, has no width, or
// separates lines. Joiners, line feeds and tabs are not hidden; joiners are part of words in some
// scripts.
func hidden(r rune) bool {
	switch {
	case r == '\n' || r == '\t' || r == '\u200c' || r == '\u200d':
		return false
	case unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029', r == '\u115f', r == '\u1160', r == '\u3164', r == '\uffa0':
		return true
	}
	return unicode.IsControl(r)
}

// Writer applies [Text] to the text written to it and passes the result on. It may be used by
// several goroutines.
type Writer struct {
	to io.Writer

	mu   sync.Mutex
	part []byte // an incomplete character, or a carriage return, at the end of the last Write
}

// NewWriter returns a Writer for the terminal to.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Raw returns the underlying writer of a [Writer], and any other w itself. Use it for output that
// moves the cursor and holds no text from other programs.
func Raw(w io.Writer) io.Writer {
	if p, ok := w.(*Writer); ok {
		return p.to
	}
	return w
}

// Write writes p. It holds back an incomplete character at the end of p until the next Write.
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

// Args returns a copy of args for a format. Each string, error and Stringer in it is replaced by
// its text as [Line] returns it. [Error] limits the length of errors.
func Args(args []any) []any {
	list := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case error:
			list[i] = oneLine(Error(a))
			continue
		case fmt.Stringer:
			list[i] = Line(fmt.Sprint(a))
			continue
		}
		if list[i] = a; reflect.ValueOf(a).Kind() == reflect.String {
			list[i] = Line(fmt.Sprint(a))
		}
	}
	return list
}

// Package split cuts a stream into JSON documents.
package split

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/mcpwire/mcpwire/codec"
)

// Document is the text of one document of a stream and the position of its first byte. Line
// and Column count from 1, Column in bytes.
type Document struct {
	Text         []byte
	Line, Column int
}

// Position returns the position in the stream of the byte at an offset of the document.
func (d Document) Position(offset int) (line, column int) {
	line, column = codec.Position(d.Text, offset)
	if line == 1 {
		column += d.Column - 1
	}
	return line + d.Line - 1, column
}

// Scanner reads the documents of a stream: a sequence of JSON values, with any line breaks in
// and between them. It reads only up to the end of a value, so that it returns each document as
// soon as it is complete. It does not check whether a document is well formed. A malformed
// document ends at the end of a line if the next line starts a new document, so that one
// malformed line does not affect others.
type Scanner struct {
	r            *bufio.Reader
	line, column int
	max          int
}

// ErrTooLong is the error for a document longer than the limit. Reading stops there.
var ErrTooLong = errors.New("document too long")

// NewScanner returns a Scanner for r that accepts documents of up to max bytes.
func NewScanner(r io.Reader, max int) *Scanner {
	return &Scanner{r: bufio.NewReaderSize(r, 64<<10), line: 1, column: 1, max: max}
}

// Next returns the next document, or [io.EOF] after the last one.
func (s *Scanner) Next() (Document, error) {
	if err := s.skipSpace(); err != nil {
		return Document{}, err
	}
	d := Document{Line: s.line, Column: s.column}
	depth, inString, escaped := 0, false, false
	for {
		c, err := s.r.ReadByte()
		if err == io.EOF {
			return d, nil
		}
		if err != nil {
			return d, err
		}
		if c == '\n' && (depth == 0 || inString || s.startsAnew(d)) {
			// A scalar ends here, and so does text that further lines cannot complete.
			s.advance(c)
			d.Text = bytes.TrimRight(d.Text, " \t\r")
			return d, nil
		}
		s.advance(c)
		if d.Text = append(d.Text, c); len(d.Text) > s.max {
			return d, ErrTooLong
		}
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped = c == '\\'
			inString = c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth <= 0 {
				return d, nil
			}
		}
	}
}

// startsAnew reports, at the end of a line inside d, whether the next line is a new document.
// This is so if both start with a brace in the first column and the next line contains a
// complete object. After a bracket, comma or colon the next line belongs to d.
func (s *Scanner) startsAnew(d Document) bool {
	if d.Column != 1 || len(d.Text) == 0 || d.Text[0] != '{' {
		return false
	}
	switch text := bytes.TrimRight(d.Text, " \t\r\n"); text[len(text)-1] {
	case '[', ',', ':':
		return false
	}
	if next, _ := s.r.Peek(2); !bytes.Equal(next, []byte(`{"`)) {
		return false
	}
	for { // read to the end of the line or of the buffer
		ahead, _ := s.r.Peek(s.r.Buffered())
		if i := bytes.IndexByte(ahead, '\n'); i >= 0 {
			return codec.Valid(ahead[:i]) == nil
		}
		if _, err := s.r.Peek(len(ahead) + 1); err != nil {
			return codec.Valid(ahead) == nil
		}
	}
}

// skipSpace advances to the start of the next document.
func (s *Scanner) skipSpace() error {
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return err
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			s.advance(c)
		default:
			return s.r.UnreadByte()
		}
	}
}

func (s *Scanner) advance(c byte) {
	if c == '\n' {
		s.line++
		s.column = 1
	} else {
		s.column++
	}
}

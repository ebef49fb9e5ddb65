package jsonrpc

import (
	"bufio"
	"bytes"
	"io"

	"github.com/mcpwire/mcpwire/codec"
)

// Scanner cuts a stream into messages: one to a line, as the stdio transport has it (basic/transports, "stdio"). What
// is in a line is for [Parse] to say; whatever that refuses, the next line is read as if nothing had happened. A
// Scanner belongs to one goroutine at a time.
type Scanner struct {
	r    *bufio.Reader
	max  int
	line []byte // what has come of a line that is longer than r's buffer
	skip bool   // the rest of a line that was too long is still to come
	err  error  // the stream has ended
}

// NewScanner returns a Scanner that reads from r lines of up to max bytes, line feed not included. If max is less
// than 1, it is [codec.DefaultMaxSize]. No more than one line is held in memory.
func NewScanner(r io.Reader, max int) *Scanner { return newScanner(r, max, scanBuffer) }

func newScanner(r io.Reader, max, buffer int) *Scanner {
	if max < 1 {
		max = codec.DefaultMaxSize
	}
	return &Scanner{r: bufio.NewReaderSize(r, buffer), max: max}
}

const (
	scanBuffer = 16 << 10 // enough for most messages
	keepLine   = 1 << 20  // how large a buffer is worth keeping from one line to the next
)

// Next returns the next line that is not blank, without its line feed. The bytes are valid until Next is called
// again. The last line may lack the line feed.
//
// If a line is too long, the error is a [*codec.Error] with [codec.ErrSize], which comes as soon as the limit is
// passed; the next call skips the rest of that line. Any other error is for good: [io.EOF] at the end of the stream,
// or what the reader failed with, and then what it had read of a line is lost.
func (s *Scanner) Next() ([]byte, error) {
	for {
		line, err := s.next()
		if err != nil || len(bytes.Trim(line, " \t\r")) > 0 {
			return line, err
		}
	}
}

// next is Next for any line, blank ones and what is left of one that was too long included.
func (s *Scanner) next() ([]byte, error) {
	if cap(s.line) > keepLine {
		s.line = nil
	}
	s.line = s.line[:0]
	for s.err == nil {
		part, err := s.r.ReadSlice('\n')
		ended := err == nil || err == io.EOF
		if err != nil && err != bufio.ErrBufferFull {
			s.err = err
			if !ended {
				break
			}
		}
		switch part = bytes.TrimSuffix(part, []byte{'\n'}); {
		case s.skip:
			if s.skip = !ended; ended {
				return nil, nil
			}
		case len(s.line)+len(part) > s.max:
			s.skip = !ended
			return nil, &codec.Error{Offset: int64(s.max), Line: 1, Column: s.max + 1, Err: codec.ErrSize}
		case ended && len(s.line) == 0:
			return part, nil
		case ended:
			return append(s.line, part...), nil
		default:
			s.line = append(s.line, part...)
		}
	}
	return nil, s.err
}

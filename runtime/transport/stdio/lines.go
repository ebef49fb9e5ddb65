package stdio

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// lines splits a stream at line feeds. It never holds much more than max bytes of it.
type lines struct {
	r   *bufio.Reader
	max int
}

func newLines(r io.Reader, max int) *lines { return &lines{bufio.NewReaderSize(r, 64<<10), max} }

// maxHead is how much is kept of a line that is too long: enough for the id of its message, if that is in front.
const maxHead = 4 << 10

// next returns the next line without its line feed, in memory of its own. A line of more than max bytes is skipped
// and is a [*transport.MessageError], or a [*transport.DeliveryError] if it was the answer to a request. The last line may
// lack its line feed; [io.EOF] comes after it.
func (l *lines) next() ([]byte, error) {
	var line, head []byte
	long := false
	for {
		chunk, err := l.r.ReadSlice('\n')
		end := err == nil
		if end {
			chunk = chunk[:len(chunk)-1]
		}
		if !long && len(line)+len(chunk) > l.max {
			long, head, line = true, bytes.Clone(line[:min(len(line), maxHead)]), nil
		}
		if long {
			head = append(head, chunk[:min(len(chunk), maxHead-len(head))]...)
		} else if line == nil {
			line = bytes.Clone(chunk)
		} else {
			line = append(line, chunk...)
		}
		switch {
		case err == bufio.ErrBufferFull:
			continue
		case err == io.EOF && (long || len(line) > 0):
			end = true
		}
		switch {
		case !end:
			return nil, err
		case long:
			return nil, l.tooLong(head)
		}
		return line, nil
	}
}

// tooLong returns the error for a line that is too long, given how it begins.
func (l *lines) tooLong(head []byte) error {
	err := fmt.Errorf("%w: more than MaxMessage (%d bytes)", transport.ErrTooLong, l.max)
	m, _ := jsonrpc.Parse(head)
	switch m.Kind {
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse:
		if !m.ID.IsZero() {
			return &transport.DeliveryError{ID: m.ID, Err: err}
		}
	case jsonrpc.KindRequest:
		return &transport.MessageError{ID: m.ID, Err: err}
	}
	return &transport.MessageError{Err: err}
}

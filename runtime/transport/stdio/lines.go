package stdio

import (
	"bufio"
	"bytes"
	"io"

	"github.com/mcpwire/mcpwire/runtime/transport/internal/overlong"
)

// lines splits a stream at line feeds. It holds little more than max bytes.
type lines struct {
	r   *bufio.Reader
	max int
}

func newLines(r io.Reader, max int) *lines { return &lines{bufio.NewReaderSize(r, 64<<10), max} }

// next returns the next line without its line feed. The caller owns the line. For a line of more
// than max bytes, it returns a [*transport.MessageError], or a [*transport.DeliveryError] if the
// line is the answer to a request. The last line may lack its line feed. The error at the end is
// [io.EOF].
func (l *lines) next() ([]byte, error) {
	var line, head, tail []byte
	long := false
	for {
		chunk, err := l.r.ReadSlice('\n')
		end := err == nil
		if end {
			chunk = chunk[:len(chunk)-1]
		}
		if !long && len(line)+len(chunk) > l.max {
			long, head, tail, line = true, overlong.Head(line), overlong.AppendTail(nil, line), nil
		}
		if long {
			head = append(head, chunk[:min(len(chunk), overlong.Part-len(head))]...)
			tail = overlong.AppendTail(tail, chunk)
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
			return nil, overlong.NewError(head, bytes.TrimRight(tail, "\r"), l.max)
		}
		return line, nil
	}
}

package stdio

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// lines splits a stream at line feeds. It never holds much more than max bytes of it.
type lines struct {
	r   *bufio.Reader
	max int
}

func newLines(r io.Reader, max int) *lines { return &lines{bufio.NewReaderSize(r, 64<<10), max} }

// next returns the next line without its line feed, in memory of its own. A line of more than max bytes is skipped
// and is a [*transport.MessageError]. The last line may lack its line feed; [io.EOF] comes after it.
func (l *lines) next() ([]byte, error) {
	var line []byte
	long := false
	for {
		chunk, err := l.r.ReadSlice('\n')
		end := err == nil
		if end {
			chunk = chunk[:len(chunk)-1]
		}
		if long = long || len(line)+len(chunk) > l.max; long {
			line = nil
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
			return nil, &transport.MessageError{Err: fmt.Errorf("%w: a line of more than %d bytes", transport.ErrTooLong, l.max)}
		}
		return line, nil
	}
}

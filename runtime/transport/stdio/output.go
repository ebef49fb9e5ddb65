package stdio

import (
	"errors"
	"os"
	"time"
)

// output reads the standard output of a process. After the process has ended, a read deadline is
// set, because a child of the process may hold the pipe open. After the deadline, output still
// returns the bytes that are in the pipe, so that a slow reader loses no message.
type output struct {
	*os.File
	late int // bytes read after the deadline
}

const (
	// maxLate is how many bytes are read after the deadline. A pipe rarely holds more. The limit
	// ends the reading from a child that continues to write.
	maxLate = 1 << 20
	// lateTimeout is how long a read after the deadline waits for bytes that are in the pipe.
	lateTimeout = 10 * time.Millisecond
)

func (o *output) Read(b []byte) (int, error) {
	n, err := o.File.Read(b)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || o.late >= maxLate {
		return n, err
	}
	o.File.SetReadDeadline(time.Now().Add(lateTimeout))
	n, err = o.File.Read(b)
	o.late += n
	return n, err
}

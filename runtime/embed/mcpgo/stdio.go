package mcpgo

import (
	"bytes"
	"context"
	"io"
	"sync"

	"github.com/mark3labs/mcp-go/server"
)

// ServeStdio serves s on in and out, usually [os.Stdin] and [os.Stdout], with tasks. Use it in
// place of the Listen method of s. It returns when in ends or ctx is done.
func (t *Tasks) ServeStdio(ctx context.Context, s *server.StdioServer, in io.Reader, out io.Writer) error {
	if err := t.Start(ctx); err != nil {
		return err
	}
	reader := &lineReader{Reader: in, line: func(line []byte) {
		if t.requests.open.Load() > 0 {
			t.requests.cancelNamed(stdioSession, line)
		}
	}}
	return s.Listen(withCarrier(ctx, &carrier{t: t, rewrites: true}), reader, &lineWriter{t: t, out: out})
}

// stdioSession is the session id of the SDK for standard input and output.
const stdioSession = "stdio"

// lineReader calls line for each line of up to maxCancelled bytes that is read.
type lineReader struct {
	io.Reader
	line func([]byte)
	part []byte // of the current line
	long bool   // the current line is too long
}

// Read implements [io.Reader].
func (r *lineReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	for text := p[:n]; len(text) > 0; {
		part, rest, end := bytes.Cut(text, []byte{'\n'})
		if r.long = r.long || len(r.part)+len(part) > maxCancelled; !r.long {
			r.part = append(r.part, part...)
		}
		if end {
			if !r.long {
				r.line(r.part)
			}
			r.part, r.long = r.part[:0], false
		}
		text = rest
	}
	return n, err
}

// lineWriter replaces the responses and requests that the SDK writes about tasks; see rewrite. It
// serializes writes, because the SDK writes its requests and its responses concurrently.
type lineWriter struct {
	t   *Tasks
	mu  sync.Mutex
	out io.Writer
}

// Write replaces a line. The SDK writes each line with one call.
func (w *lineWriter) Write(line []byte) (int, error) {
	text := line
	if r, ok := w.t.rewrite(line); ok {
		defer w.t.tickets.close(r.ticket)
		if r.message == "" { // the request was cancelled
			return len(line), nil
		}
		text = append([]byte(r.message), '\n')
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.out.Write(text); err != nil {
		return 0, err
	}
	return len(line), nil
}

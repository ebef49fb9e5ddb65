package stdio

import (
	"errors"
	"io"
	"os"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Server opens the server end over this process's standard input and output. Call it once, before
// anything else uses them. It reserves standard output: from then on [os.Stdout] is the same as
// [os.Stderr], so that a stray print does not corrupt the messages.
func Server(o Options) transport.HalfCloser {
	in, out := os.Stdin, os.Stdout
	os.Stdout = os.Stderr
	var r io.ReadCloser = newPump(in)
	if f, ok := interruptible(in); ok {
		r = f
	}
	var w io.WriteCloser = out
	if f, ok := interruptible(out); ok {
		w = &filePair{f, out}
	}
	return New(r, w, o)
}

// filePair writes to a file. Its Close also closes another file for the same stream.
type filePair struct {
	*os.File
	other *os.File
}

func (b *filePair) Close() error { return errors.Join(b.File.Close(), b.other.Close()) }

// pump makes an interruptible reader of a file that cannot be interrupted, such as a terminal. If
// it is closed during a read, its goroutine stays until that read returns.
type pump struct {
	f       *os.File
	got     chan readResult
	left    []byte
	closing sync.Once
	closed  chan struct{}
}

type readResult struct {
	data []byte
	err  error
}

func newPump(f *os.File) *pump {
	return &pump{f: f, closed: make(chan struct{})}
}

func (p *pump) Read(b []byte) (int, error) {
	if p.got == nil {
		p.got = make(chan readResult)
		go p.run() // ends after Close, when a concurrent read has returned
	}
	if len(p.left) == 0 {
		select {
		case g := <-p.got:
			if g.err != nil {
				return 0, g.err
			}
			p.left = g.data
		case <-p.closed:
			return 0, transport.ErrClosed
		}
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

func (p *pump) run() {
	for {
		buf := make([]byte, 4<<10)
		n, err := p.f.Read(buf)
		for _, g := range []readResult{{buf[:n], nil}, {nil, err}} {
			if len(g.data) == 0 && g.err == nil {
				continue
			}
			select {
			case p.got <- g:
			case <-p.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *pump) Close() error {
	p.closing.Do(func() { close(p.closed) })
	return nil
}

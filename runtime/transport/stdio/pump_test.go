package stdio

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

func TestPumpReadsWholeFile(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0123456789", 10_000)
	go func() { // ends when all bytes are read
		io.WriteString(w, text)
		w.Close()
	}()
	p := newPump(r)
	got, err := io.ReadAll(p)
	if err != nil || string(got) != text {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseInterruptsPump(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() // ends the concurrent read of the file
	p := newPump(r)
	got := make(chan error)
	go func() { // ends when the pump is closed
		_, err := p.Read(make([]byte, 1))
		got <- err
	}()
	for range 2 {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := <-got; err != transport.ErrClosed {
		t.Errorf("got %v, want %v", err, transport.ErrClosed)
	}
}

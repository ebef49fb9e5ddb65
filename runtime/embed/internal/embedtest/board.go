package embedtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// board holds the notes of handlers and the gates at which they wait. Servers that use the same
// store one after another share it.
type board struct {
	mu      sync.Mutex
	file    *os.File             // nil for notes that stay in this process
	notes   map[string][]string  // by key
	open    map[string]bool      // gates that are open
	closed  bool                 // all waits fail
	manager func() *task.Manager // of the latest server; see [Endpoint]
	changed chan struct{}        // closed and replaced with each change
}

// note is a line of the file of a board.
type note struct{ Key, Text string }

// newBoard returns a board. With a path, its notes are in that file.
func newBoard(path string) (*board, error) {
	b := &board{notes: map[string][]string{}, open: map[string]bool{}, changed: make(chan struct{})}
	if path == "" {
		return b, nil
	}
	notes, err := readNotes(path)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		b.notes[n.Key] = append(b.notes[n.Key], n.Text)
	}
	b.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return b, err
}

// readNotes reads the file of a board, which need not exist.
func readNotes(path string) (notes []note, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var n note
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return nil, err
		}
		notes = append(notes, n)
	}
	return notes, lines.Err()
}

// change applies f and wakes all waiters.
func (b *board) change(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

// note adds a note. It writes a line of the file at once, so that the line is complete even if the
// process is killed.
func (b *board) note(key, text string) {
	b.change(func() {
		b.notes[key] = append(b.notes[key], text)
		if b.file == nil {
			return
		}
		line, err := json.Marshal(note{key, text})
		if err == nil {
			_, err = b.file.Write(append(line, '\n'))
		}
		if err != nil {
			panic(err)
		}
	})
}

// await waits until done returns true. It calls done with the lock held.
func (b *board) await(ctx context.Context, done func() bool) error {
	for {
		b.mu.Lock()
		ok, closed, changed := done(), b.closed, b.changed
		b.mu.Unlock()
		if closed {
			return errClosed
		}
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var errClosed = errors.New("embedtest: the case has ended")

// close ends all waits. Handlers may still wait after their call has ended.
func (b *board) close() { b.change(func() { b.closed = true }) }

// read waits until there are count notes of key, and returns all of them.
func (b *board) read(ctx context.Context, key string, count int) (notes []string, err error) {
	err = b.await(ctx, func() bool {
		notes = append([]string{}, b.notes[key]...)
		return len(notes) >= count
	})
	return notes, err
}

// pass waits at a gate until it is open.
func (b *board) pass(ctx context.Context, key string) error {
	return b.await(ctx, func() bool { return b.open[key] })
}

// signal sends a signal to a task.
func (b *board) signal(ctx context.Context, id, name string, value json.RawMessage) error {
	b.mu.Lock()
	manager := b.manager
	b.mu.Unlock()
	return manager().Signal(ctx, id, name, value)
}

// release opens a gate.
func (b *board) release(key string) { b.change(func() { b.open[key] = true }) }

// Package boltevents keeps the sessions and the streams of Streamable HTTP in a file, so that both survive a restart of
// the server: what a client has missed waits for it, and its session goes on, with what its owner had the connection
// keep. It stands on [bbolt]; one process at a time can have a file open, and it must not be the file of a task store.
//
// Writes of many callers that come together share one transaction, and so one synchronisation with the disk; nobody
// waits for others to come.
//
// [bbolt]: https://pkg.go.dev/go.etcd.io/bbolt
package boltevents

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// ErrLocked says that another process, or another Store of this one, has the file open.
var ErrLocked = errors.New("boltevents: file is in use")

// ErrClosed says that the store was closed.
var ErrClosed = errors.New("boltevents: store is closed")

// Options are the limits of a [Store]. The zero value means the defaults.
type Options struct {
	MaxSessionBytes int           // of events of one session; default [DefaultSessionBytes]
	MaxAge          time.Duration // how long a session is kept in which nothing happens; default [DefaultMaxAge]
}

// What a [Store] keeps if its options do not say otherwise.
const (
	DefaultSessionBytes = 8 << 20
	DefaultMaxAge       = 24 * time.Hour
)

// lockTimeout is how long Open waits for a file that is in use: a process that is about to end may still have it.
const lockTimeout = time.Second

// Store keeps sessions and streams in a file. It is a [streamable.SessionStore]. Make one with [Open].
type Store struct {
	o       Options
	db      *bbolt.DB
	writes  chan *write
	closing chan struct{}
	writer  sync.WaitGroup
	close   func() error
}

var _ streamable.SessionStore = (*Store)(nil)

// Open opens the store in a file, and makes the file if there is none. It fails with [ErrLocked] if the file is in use.
// Sessions that are older than allowed are dropped.
func Open(path string, o Options) (*Store, error) {
	if o.MaxSessionBytes <= 0 {
		o.MaxSessionBytes = DefaultSessionBytes
	}
	if o.MaxAge <= 0 {
		o.MaxAge = DefaultMaxAge
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTimeout, FreelistType: bbolt.FreelistMapType})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	}
	if err != nil {
		return nil, fmt.Errorf("boltevents: %w", err)
	}
	s := &Store{o: o, db: db, writes: make(chan *write, maxBatch), closing: make(chan struct{})}
	if err := db.Update(s.prune); err != nil {
		db.Close()
		return nil, fmt.Errorf("boltevents: %w", err)
	}
	s.close = sync.OnceValue(func() error {
		close(s.closing)
		s.writer.Wait()
		return s.db.Close()
	})
	s.writer.Go(s.write) // ends when Close closes s.closing
	return s, nil
}

// Close closes the file, after the writes that have begun. Calling it again does no harm.
func (s *Store) Close() error { return s.close() }

// Each session is a bucket. In it are, by the first byte of the key:
var (
	keyOpening = []byte("o") // how it was opened, as JSON
	keyUsed    = []byte("u") // when something was written last, as seconds
	keySize    = []byte("s") // of its events in bytes
	keyState   = []byte("k") // of who serves it
)

const (
	prefixMessage = 'm' // and the stream: the message that it was opened for
	prefixEvent   = 'e' // and the stream, a zero byte and the number: a byte of flags, and the text
	prefixOrder   = 'q' // and a running number: the key of an event; the oldest event is first
)

// The flags of an event.
const (
	flagText = 1 << iota
	flagLast
)

var root = []byte("sessions")

// overhead is what an event costs beside its text.
const overhead = 128

// prune drops the sessions in which nothing has happened for too long, and makes the bucket of all sessions.
func (s *Store) prune(tx *bbolt.Tx) error {
	sessions, err := tx.CreateBucketIfNotExists(root)
	if err != nil {
		return err
	}
	var old [][]byte
	limit := uint64(time.Now().Add(-s.o.MaxAge).Unix())
	err = sessions.ForEachBucket(func(name []byte) error {
		if number(sessions.Bucket(name).Get(keyUsed)) < limit {
			old = append(old, append([]byte(nil), name...))
		}
		return nil
	})
	for _, name := range old {
		err = errors.Join(err, sessions.DeleteBucket(name))
	}
	return err
}

// Keep notes how a session was opened.
func (s *Store) Keep(ctx context.Context, session string, o streamable.Opening) error {
	o.State = nil
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("boltevents: %w", err)
	}
	return s.update(ctx, session, func(b *bbolt.Bucket) error { return b.Put(keyOpening, text) })
}

// KeepState notes what is to be known of a session to whom serves it.
func (s *Store) KeepState(ctx context.Context, session string, state []byte) error {
	return s.update(ctx, session, func(b *bbolt.Bucket) error { return b.Put(keyState, state) })
}

// Begin notes that a stream was opened for a message.
func (s *Store) Begin(ctx context.Context, session, stream string, message []byte) error {
	return s.update(ctx, session, func(b *bbolt.Bucket) error {
		return b.Put(append([]byte{prefixMessage}, stream...), message)
	})
}

// Append adds an event to the end of a stream.
func (s *Store) Append(ctx context.Context, session, stream string, e streamable.Event) error {
	key := eventKey(stream, e.Number)
	value := append([]byte{flags(e)}, e.Text...)
	return s.update(ctx, session, func(b *bbolt.Bucket) error {
		n, err := b.NextSequence()
		if err != nil {
			return err
		}
		size := number(b.Get(keySize)) + uint64(len(value)+overhead)
		if err := errors.Join(b.Put(key, value), b.Put(binary.BigEndian.AppendUint64([]byte{prefixOrder}, n), key)); err != nil {
			return err
		}
		for c := b.Cursor(); size > uint64(s.o.MaxSessionBytes); {
			k, oldest := c.Seek([]byte{prefixOrder})
			if k == nil || k[0] != prefixOrder || string(oldest) == string(key) {
				break
			}
			oldest = append([]byte(nil), oldest...)
			size -= uint64(len(b.Get(oldest)) + overhead)
			if err := errors.Join(b.Delete(append([]byte(nil), k...)), b.Delete(oldest)); err != nil {
				return err
			}
		}
		return b.Put(keySize, binary.BigEndian.AppendUint64(nil, size))
	})
}

// maxRead is how many bytes of events are returned at once.
const maxRead = 1 << 20

// Events returns the next events of a stream after the one with a number.
func (s *Store) Events(_ context.Context, session, stream string, after uint64) (events []streamable.Event, err error) {
	err = s.view(session, func(b *bbolt.Bucket) error {
		prefix := eventPrefix(stream)
		c := b.Cursor()
		k, _ := c.Seek(prefix)
		if !hasPrefix(k, prefix) {
			return fmt.Errorf("%w: stream %s", streamable.ErrUnknown, stream)
		}
		size := 0
		for k, v := c.Seek(eventKey(stream, after+1)); hasPrefix(k, prefix) && size < maxRead; k, v = c.Next() {
			e := event(k, v)
			if v[0]&flagText != 0 {
				e.Text = append([]byte{}, v[1:]...)
			}
			events = append(events, e)
			size += len(v) + overhead
		}
		return nil
	})
	return events, err
}

// Load returns how a session was opened, and its streams.
func (s *Store) Load(_ context.Context, session string) (o streamable.Opening, streams []streamable.KeptStream, err error) {
	err = s.view(session, func(b *bbolt.Bucket) error {
		text := b.Get(keyOpening)
		if text == nil {
			return streamable.ErrUnknown
		}
		if err := json.Unmarshal(text, &o); err != nil {
			return fmt.Errorf("boltevents: opening of a session: %w", err)
		}
		if state := b.Get(keyState); state != nil {
			o.State = append([]byte{}, state...)
		}
		kept := map[string]*streamable.KeptStream{}
		var order []string
		stream := func(name string) *streamable.KeptStream {
			if kept[name] == nil {
				kept[name] = &streamable.KeptStream{Stream: name}
				order = append(order, name)
			}
			return kept[name]
		}
		c := b.Cursor()
		for k, v := c.Seek([]byte{prefixEvent}); len(k) > 9 && k[0] == prefixEvent; k, v = c.Next() {
			stream(string(k[1 : len(k)-9])).Last = event(k, v) // the last one stays
		}
		for k, v := c.Seek([]byte{prefixMessage}); len(k) > 0 && k[0] == prefixMessage; k, v = c.Next() {
			stream(string(k[1:])).Message = append([]byte{}, v...)
		}
		for _, name := range order {
			streams = append(streams, *kept[name])
		}
		return nil
	})
	return o, streams, err
}

// Forget drops a session with all of its streams.
func (s *Store) Forget(ctx context.Context, session string) error {
	return s.do(ctx, func(tx *bbolt.Tx) error {
		err := tx.Bucket(root).DeleteBucket([]byte(session))
		if errors.Is(err, bolterrors.ErrBucketNotFound) {
			return nil
		}
		return err
	})
}

// view reads a session.
func (s *Store) view(session string, f func(*bbolt.Bucket) error) error {
	return s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(root).Bucket([]byte(session))
		if b == nil {
			return streamable.ErrUnknown
		}
		return f(b)
	})
}

// update changes a session.
func (s *Store) update(ctx context.Context, session string, f func(*bbolt.Bucket) error) error {
	return s.do(ctx, func(tx *bbolt.Tx) error {
		b, err := tx.Bucket(root).CreateBucketIfNotExists([]byte(session))
		if err != nil {
			return err
		}
		return errors.Join(f(b), b.Put(keyUsed, binary.BigEndian.AppendUint64(nil, uint64(time.Now().Unix()))))
	})
}

func flags(e streamable.Event) (f byte) {
	if e.Text != nil {
		f |= flagText
	}
	if e.Last {
		f |= flagLast
	}
	return f
}

// event returns what a key and a value say of an event, but for its text.
func event(k, v []byte) streamable.Event {
	return streamable.Event{Number: number(k[len(k)-8:]), Last: v[0]&flagLast != 0}
}

func eventPrefix(stream string) []byte {
	return append(append([]byte{prefixEvent}, stream...), 0)
}

func eventKey(stream string, n uint64) []byte {
	return binary.BigEndian.AppendUint64(eventPrefix(stream), n)
}

func hasPrefix(k, prefix []byte) bool {
	return len(k) == len(prefix)+8 && string(k[:len(prefix)]) == string(prefix)
}

// number is what 8 bytes say, or 0 if there are none.
func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

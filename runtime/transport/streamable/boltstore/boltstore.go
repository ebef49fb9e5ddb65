// Package boltstore stores the sessions and streams of Streamable HTTP in a file, so that they
// survive a restart of the server: a client receives the events that it has missed, and its session
// is restored with the state that its owner has persisted. It uses [bbolt]. One process at a time
// can open a file, and the file must not be that of a task store.
//
// Concurrent writes share one transaction, and so one synchronization with the disk; no write waits
// for others to arrive.
//
// # Operations
//
// [Store.Health] returns why the last write failed, such as a full disk. The server then continues
// without the store: a client whose connection breaks loses the events that were not stored, and
// receives an error. The store works again with the first write for which there is room, without a
// restart. The file does not shrink by itself: [Store.Compact] returns unused space to the disk.
// [Store.Backup] copies the file. Both may be called while the store is in use. A session in a
// backup is as old as the backup: its client may know of later events.
//
// [bbolt]: https://pkg.go.dev/go.etcd.io/bbolt
package boltstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/mcpwire/mcpwire/runtime/internal/boltfile"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// ErrLocked is returned if another process, or another Store of this one, has the file open.
var ErrLocked = errors.New("boltstore: file is in use")

// ErrClosed is returned after Close.
var ErrClosed = errors.New("boltstore: store is closed")

// Options sets the limits of a [Store]. The zero value means the defaults.
type Options struct {
	// MaxBytes limits the total size of the events and unanswered requests of all sessions; default
	// 1 GiB. Above it, the largest session loses its oldest events.
	MaxBytes int

	// MaxSessionBytes is the same limit for one session; default 8 MiB, and at most
	// MaxBytes. A longer event is rejected with [transport.ErrTooLong].
	MaxSessionBytes int

	// MaxAge is how long an unused session is stored; default 24 hours. It counts from the
	// last change or a Touch, in whole seconds. Older sessions are treated as unknown, and
	// are deleted while the store is open.
	MaxAge time.Duration
}

// lockTimeout is how long Open waits for a file that is in use: a process that is about to exit may
// still have it open.
const lockTimeout = time.Second

// Store is a [streamable.SessionStore] in a file. Open one with [Open]. Its methods may be called
// concurrently.
type Store struct {
	streamable.SessionStore
	file *store
}

// Close closes the file after the writes that have begun. It waits for a running Compact or Backup.
// It may be called repeatedly.
func (s *Store) Close() error { return s.file.close() }

// Health returns the error of the last write, for example because the disk is full. It returns nil
// if that write succeeded, and [ErrClosed] after Close.
func (s *Store) Health() error { return s.file.health() }

// Compact rewrites the file without the free space that dropped events and sessions have left.
// Meanwhile it needs as much additional disk space as the remaining data. Reads continue during the
// call, and writes wait. If Compact fails, the store continues with its current file. It is not
// supported where an open file cannot be renamed, as on Windows.
func (s *Store) Compact() error { return s.file.compact() }

// Backup writes a consistent copy of the store to the file path, for [Open]. While it is
// incomplete, the copy is in path + ".partial"; a file that an interrupted Backup has left there is
// replaced. The complete copy replaces an existing file at path. Reads and writes continue during
// the call; a write for which the store's file has to grow may block.
func (s *Store) Backup(path string) error { return s.file.backup(path) }

// store implements [streamable.SessionStore].
type store struct {
	o       Options
	path    string
	writes  chan *write
	closing chan struct{}
	writer  sync.WaitGroup
	close   func() error
	fault   atomic.Pointer[error] // the error of the last transaction; nil if it succeeded

	upkeep  sync.Mutex   // held by Compact and Backup; locked before the others
	writing sync.Mutex   // held while a transaction writes; locked before mu
	mu      sync.RWMutex // read lock to use db; write lock to replace it
	db      *bbolt.DB
}

var _ streamable.SessionStore = (*store)(nil)

// Open opens the store in a file, and creates the file if there is none. It fails with [ErrLocked]
// if the file is in use. It deletes sessions that are older than MaxAge.
func Open(path string, o Options) (*Store, error) {
	s, err := open(path, o)
	if err != nil {
		return nil, err
	}
	return &Store{SessionStore: s, file: s}, nil
}

func open(path string, o Options) (*store, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.MaxSessionBytes <= 0 {
		o.MaxSessionBytes = 8 << 20
	}
	o.MaxSessionBytes = min(o.MaxSessionBytes, o.MaxBytes)
	if o.MaxAge <= 0 {
		o.MaxAge = 24 * time.Hour
	}
	db, err := boltfile.Open(path, 0o600, lockTimeout)
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	}
	if err != nil {
		return nil, fmt.Errorf("boltstore: %w", err)
	}
	s := &store{o: o, path: path, db: db, writes: make(chan *write, maxBatch), closing: make(chan struct{})}
	if err := db.Update(s.prepare); err != nil {
		db.Close()
		return nil, fmt.Errorf("boltstore: %w", err)
	}
	boltfile.RemoveCompact(path)
	s.close = sync.OnceValue(func() error {
		close(s.closing)
		s.writer.Wait()
		s.upkeep.Lock()
		defer s.upkeep.Unlock()
		return s.db.Close()
	})
	s.writer.Go(s.write) // ends when Close closes s.closing
	return s, nil
}

// Each session is a bucket. The first byte of a key determines the kind of the entry. A prefix
// is followed by the parts that its comment names.
var (
	keyOpening = []byte("o") // the Opening, as JSON
	keyUsed    = []byte("u") // time of the last use, in seconds
	keySize    = []byte("s") // size of its events and unanswered requests in bytes
	keyState   = []byte("k") // the state of its owner
)

const (
	prefixBegin = 'm' // the stream; the value is the ids of its requests, until the last event
	prefixEvent = 'e' // the stream, a zero byte, the number; the value is flags and the text
	prefixOrder = 'q' // a sequence number, the oldest first; the value is the key of an event
)

// The flags of an event.
const (
	flagText = 1 << iota
	flagLast
)

var (
	root     = []byte("sessions")
	totals   = []byte("totals")
	keyTotal = []byte("bytes") // in totals: the sum of keySize over all sessions
)

// overhead is the size of an event or of the beginning of a stream in addition to its text, in
// bytes.
const overhead = 128

// prepare creates the buckets, deletes old sessions and computes the total size.
func (s *store) prepare(tx *bbolt.Tx) error {
	sessions, err := tx.CreateBucketIfNotExists(root)
	if err != nil {
		return err
	}
	if _, err := tx.CreateBucketIfNotExists(totals); err != nil {
		return err
	}
	if err := s.prune(tx); err != nil {
		return err
	}
	var total uint64
	err = sessions.ForEachBucket(func(name []byte) error {
		total += number(sessions.Bucket(name).Get(keySize))
		return nil
	})
	return errors.Join(err, tx.Bucket(totals).Put(keyTotal, encode(total)))
}

// isOld reports whether a session is unused for longer than MaxAge.
func (s *store) isOld(b *bbolt.Bucket) bool {
	return number(b.Get(keyUsed)) < uint64(max(time.Now().Add(-s.o.MaxAge).Unix(), 0))
}

// prune deletes the sessions that are unused for longer than MaxAge.
func (s *store) prune(tx *bbolt.Tx) error {
	sessions := tx.Bucket(root)
	var old [][]byte
	err := sessions.ForEachBucket(func(name []byte) error {
		if s.isOld(sessions.Bucket(name)) {
			old = append(old, append([]byte(nil), name...))
		}
		return nil
	})
	for _, name := range old {
		err = errors.Join(err, drop(tx, name))
	}
	return err
}

// drop deletes a session, if it exists.
func drop(tx *bbolt.Tx, session []byte) error {
	sessions := tx.Bucket(root)
	b := sessions.Bucket(session)
	if b == nil {
		return nil
	}
	size := number(b.Get(keySize))
	return errors.Join(sessions.DeleteBucket(session), count(tx, nil, -int64(size)))
}

// count adds by to the size of the store and, unless b is nil, of a session.
func count(tx *bbolt.Tx, b *bbolt.Bucket, by int64) error {
	add := func(b *bbolt.Bucket, key []byte) error {
		return b.Put(key, encode(uint64(max(int64(number(b.Get(key)))+by, 0))))
	}
	err := add(tx.Bucket(totals), keyTotal)
	if b != nil {
		err = errors.Join(err, add(b, keySize))
	}
	return err
}

// PersistOpening stores how a session was opened.
func (s *store) PersistOpening(ctx context.Context, session string, o streamable.Opening) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("boltstore: %w", err)
	}
	return s.update(ctx, session, func(_ *bbolt.Tx, b *bbolt.Bucket) error { return b.Put(keyOpening, text) })
}

// PersistState stores the state of a session's owner.
func (s *store) PersistState(ctx context.Context, session string, state []byte) error {
	return s.update(ctx, session, func(_ *bbolt.Tx, b *bbolt.Bucket) error { return b.Put(keyState, state) })
}

// Touch records that sessions are in use.
func (s *store) Touch(ctx context.Context, sessions []string) error {
	return s.do(ctx, func(tx *bbolt.Tx) error {
		var failed error
		for _, session := range sessions {
			if b := tx.Bucket(root).Bucket([]byte(session)); b != nil {
				failed = errors.Join(failed, b.Put(keyUsed, now()))
			}
		}
		return failed
	})
}

// Begin stores that a stream was opened for requests.
func (s *store) Begin(ctx context.Context, session, stream string, requests []byte) error {
	size := len(requests) + overhead
	if size > s.o.MaxSessionBytes {
		return fmt.Errorf("boltstore: ids of %d bytes: %w", len(requests), transport.ErrTooLong)
	}
	return s.update(ctx, session, func(tx *bbolt.Tx, b *bbolt.Bucket) error {
		// size must not change, because the function may be called again.
		key, more := beginKey(stream), size
		if old := b.Get(key); old != nil {
			more -= len(old) + overhead
		}
		err := errors.Join(b.Put(key, requests), count(tx, b, int64(more)))
		if err != nil {
			return err
		}
		return s.limit(tx, b)
	})
}

// Append adds an event to the end of a stream.
func (s *store) Append(ctx context.Context, session, stream string, e streamable.Event) error {
	key := eventKey(stream, e.Number)
	value := append([]byte{flags(e)}, e.Text...)
	if len(value)+overhead > s.o.MaxSessionBytes {
		return fmt.Errorf("boltstore: event of %d bytes: %w", len(e.Text), transport.ErrTooLong)
	}
	return s.update(ctx, session, func(tx *bbolt.Tx, b *bbolt.Bucket) error {
		n, err := b.NextSequence()
		if err != nil {
			return err
		}
		size := int64(len(value) + overhead)
		if begin := b.Get(beginKey(stream)); e.Last && begin != nil {
			size -= int64(len(begin) + overhead)
			err = b.Delete(beginKey(stream))
		}
		err = errors.Join(err, b.Put(key, value), b.Put(orderKey(n), key), count(tx, b, size))
		if err != nil {
			return err
		}
		return s.limit(tx, b)
	})
}

// limit deletes the oldest events of a session that is too large, and those of the largest sessions
// if the store is too large.
func (s *store) limit(tx *bbolt.Tx, b *bbolt.Bucket) error {
	if err := shrink(tx, b, uint64(s.o.MaxSessionBytes)); err != nil {
		return err
	}
	maximum := uint64(s.o.MaxBytes)
	for number(tx.Bucket(totals).Get(keyTotal)) > maximum {
		sessions := tx.Bucket(root)
		var largest *bbolt.Bucket
		size := uint64(0)
		err := sessions.ForEachBucket(func(name []byte) error {
			of := sessions.Bucket(name)
			if n := number(of.Get(keySize)); n > size && oldest(of) != nil {
				largest, size = of, n
			}
			return nil
		})
		if err != nil || largest == nil {
			return err
		}
		// Deleting a little more than necessary saves searching all sessions for each event.
		if err := shrink(tx, largest, size-min(size, maximum/64+1)); err != nil {
			return err
		}
	}
	return nil
}

// oldest returns the order key of the oldest event of a session, or nil if there is none.
func oldest(b *bbolt.Bucket) []byte {
	k, _ := b.Cursor().Seek([]byte{prefixOrder})
	if k == nil || k[0] != prefixOrder {
		return nil
	}
	return k
}

// shrink deletes the oldest events of a session until it has at most maximum bytes, or no events.
func shrink(tx *bbolt.Tx, b *bbolt.Bucket, maximum uint64) error {
	for number(b.Get(keySize)) > maximum {
		k := oldest(b)
		if k == nil {
			return nil
		}
		entry := append([]byte(nil), k...)
		event := append([]byte(nil), b.Get(entry)...)
		size := int64(len(b.Get(event)) + overhead)
		if err := errors.Join(b.Delete(entry), b.Delete(event), count(tx, b, -size)); err != nil {
			return err
		}
	}
	return nil
}

// maxRead is how many bytes of events one call of Events returns.
const maxRead = 1 << 20

// Events returns the next events of a stream after the event with the number after.
func (s *store) Events(_ context.Context, session, stream string, after uint64) (events []streamable.Event, err error) {
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
func (s *store) Load(_ context.Context, session string) (o streamable.Opening, streams []streamable.PersistedStream, err error) {
	err = s.view(session, func(b *bbolt.Bucket) error {
		text := b.Get(keyOpening)
		if text == nil {
			return streamable.ErrUnknown
		}
		if err := json.Unmarshal(text, &o); err != nil {
			return fmt.Errorf("boltstore: opening of a session: %w", err)
		}
		if state := b.Get(keyState); state != nil {
			o.State = append([]byte{}, state...)
		}
		found := map[string]*streamable.PersistedStream{}
		var order []string
		stream := func(name string) *streamable.PersistedStream {
			if found[name] == nil {
				found[name] = &streamable.PersistedStream{Stream: name}
				order = append(order, name)
			}
			return found[name]
		}
		c := b.Cursor()
		for k, v := c.Seek([]byte{prefixEvent}); len(k) > 9 && k[0] == prefixEvent; k, v = c.Next() {
			// The last assignment is the newest event.
			stream(string(k[1 : len(k)-9])).Last = event(k, v)
		}
		for k, v := c.Seek([]byte{prefixBegin}); len(k) > 0 && k[0] == prefixBegin; k, v = c.Next() {
			stream(string(k[1:])).Requests = append([]byte{}, v...)
		}
		for _, name := range order {
			streams = append(streams, *found[name])
		}
		return nil
	})
	return o, streams, err
}

// Forget deletes a session with all of its streams.
func (s *store) Forget(ctx context.Context, session string) error {
	return s.do(ctx, func(tx *bbolt.Tx) error { return drop(tx, []byte(session)) })
}

// view calls f to read a session.
func (s *store) view(session string, f func(*bbolt.Bucket) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket(root).Bucket([]byte(session))
		if b == nil || s.isOld(b) {
			return streamable.ErrUnknown
		}
		return f(b)
	})
}

// update calls f to change a session.
func (s *store) update(ctx context.Context, session string, f func(*bbolt.Tx, *bbolt.Bucket) error) error {
	return s.do(ctx, func(tx *bbolt.Tx) error {
		sessions := tx.Bucket(root)
		if b := sessions.Bucket([]byte(session)); b != nil && s.isOld(b) {
			if err := drop(tx, []byte(session)); err != nil {
				return err
			}
		}
		b, err := sessions.CreateBucketIfNotExists([]byte(session))
		if err != nil {
			return err
		}
		return errors.Join(b.Put(keyUsed, now()), f(tx, b))
	})
}

// now returns the time in the format of keyUsed.
func now() []byte { return encode(uint64(time.Now().Unix())) }

func flags(e streamable.Event) (f byte) {
	if e.Text != nil {
		f |= flagText
	}
	if e.Last {
		f |= flagLast
	}
	return f
}

// event returns the event of a key and a value, without its text.
func event(k, v []byte) streamable.Event {
	return streamable.Event{Number: number(k[len(k)-8:]), Last: v[0]&flagLast != 0}
}

func eventPrefix(stream string) []byte {
	return append(append([]byte{prefixEvent}, stream...), 0)
}

func eventKey(stream string, n uint64) []byte {
	return binary.BigEndian.AppendUint64(eventPrefix(stream), n)
}

func beginKey(stream string) []byte { return append([]byte{prefixBegin}, stream...) }

func orderKey(n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{prefixOrder}, n) }

func encode(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func hasPrefix(k, prefix []byte) bool {
	return len(k) == len(prefix)+8 && string(k[:len(prefix)]) == string(prefix)
}

// number decodes 8 bytes. It returns 0 for any other length.
func number(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Package bolt is a durable task store in one file, for one machine: what it has acknowledged
// is there after a crash of the process or of the machine. It stands on [bbolt], and one
// process at a time can have a file open.
//
// Writes of many callers that come together share one transaction, and so one
// synchronisation with the disk; nobody waits for others to come.
//
// # Damage
//
// [Open] reads the whole index and the head of every record, and refuses a file that is cut
// short or damaged with [task.ErrCorrupt]; payloads are checked when they are read. What is
// damaged is never handed out.
//
// When a transaction fails, since the disk is full or broken, nobody knows what of it has reached the
// disk. The store then takes no more writes; reads go on. Opened again, it has all that was
// acknowledged.
//
// [bbolt]: https://pkg.go.dev/go.etcd.io/bbolt
package bolt

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/watch"
)

// ErrLocked says that another process, or another Store of this one, has the file open.
var ErrLocked = errors.New("bolt: file is in use")

// lockTimeout is how long Open waits for a file that is in use: a process that is about to
// end may still have it.
const lockTimeout = time.Second

// Store keeps records in a file. Make one with [Open].
type Store struct {
	db      *bbolt.DB
	hub     watch.Hub
	cache   cache
	writes  chan *write
	closing chan struct{} // closed by Close
	once    sync.Once
	writer  sync.WaitGroup
	err     error // of closing; read after writer
}

var _ task.Store = (*Store)(nil)

// Open opens the store in a file, and makes the file if there is none. It fails with
// [ErrLocked] if the file is in use, and with [task.ErrCorrupt] if it is damaged, which an
// empty file is too.
func Open(path string) (*Store, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := initialize(path); err != nil {
			return nil, fmt.Errorf("bolt: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("bolt: %w", err)
	case info.Size() == 0:
		return nil, fmt.Errorf("%w: %s is empty", task.ErrCorrupt, path)
	}
	db, err := openDB(path)
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, writes: make(chan *write, maxBatch), closing: make(chan struct{})}
	if err := s.view(s.verify); err != nil {
		db.Close()
		return nil, err
	}
	s.writer.Go(s.write) // ends when Close closes s.closing
	return s, nil
}

// initialize makes an empty store in a new file. That has its name only when it is complete,
// so that an incomplete file under that name is always damage.
func initialize(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".task-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // unless it is renamed
	f.Close()
	db, err := bbolt.Open(f.Name(), 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range bucketNames {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	// A link, unlike a rename, does not replace what another process has made meanwhile.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// openDB opens the database of a file and makes sure that all of it is there. A damaged file
// makes bbolt panic, or fault where pages are missing; both become errors.
func openDB(path string) (db *bbolt.DB, err error) {
	var file *os.File
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", task.ErrCorrupt, p)
			unlock(file)
			file.Close()
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:      lockTimeout,
		FreelistType: bbolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			f, err := os.OpenFile(name, flag, mode)
			file = f
			return f, err
		},
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w: %s", ErrLocked, path)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("bolt: %w", err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", task.ErrCorrupt, err)
	}
	return db, nil
}

// The buckets. A task's key is its Seq, so that new and running tasks, which are written most, lie
// together; the others are indexes.
var (
	tasksBucket  = []byte("tasks")  // Seq to record
	idsBucket    = []byte("ids")    // id to Seq
	ownersBucket = []byte("owners") // digest of the owner and Seq, to nothing
	expiryBucket = []byte("expiry") // microseconds since 1970 and Seq, to nothing

	bucketNames = [][]byte{tasksBucket, idsBucket, ownersBucket, expiryBucket}
)

// buckets are the buckets in a transaction.
type buckets struct{ tasks, ids, owners, expiry *bbolt.Bucket }

func bucketsOf(tx *bbolt.Tx) (b buckets, err error) {
	b = buckets{tx.Bucket(tasksBucket), tx.Bucket(idsBucket), tx.Bucket(ownersBucket), tx.Bucket(expiryBucket)}
	if b.tasks == nil || b.ids == nil || b.owners == nil || b.expiry == nil {
		return b, fmt.Errorf("%w: not a task store, or parts of it are missing", task.ErrCorrupt)
	}
	return b, nil
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// ownerPrefix stands for an owner, of any length and with any bytes in it, in keys.
func ownerPrefix(owner string) []byte {
	sum := sha256.Sum256([]byte(owner))
	return sum[:16]
}

func ownerKey(owner string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(ownerPrefix(owner), seq)
}

func expiryKey(expires time.Time, seq uint64) []byte {
	key := binary.BigEndian.AppendUint64(nil, uint64(expires.UnixMicro()))
	return binary.BigEndian.AppendUint64(key, seq)
}

// view reads in a transaction. What is damaged is an error, not a panic.
func (s *Store) view(read func(b buckets) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", task.ErrCorrupt, p)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	err = s.db.View(func(tx *bbolt.Tx) error {
		b, err := bucketsOf(tx)
		if err != nil {
			return err
		}
		return read(b)
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return task.ErrClosed
	}
	return err
}

// lookup returns the key and the value of a task.
func (b buckets) lookup(id string) (key, value []byte, err error) {
	if key = b.ids.Get([]byte(id)); key == nil {
		return nil, nil, task.ErrNotFound
	}
	if value = b.tasks.Get(key); value == nil {
		return nil, nil, fmt.Errorf("%w: task %q has no record", task.ErrCorrupt, id)
	}
	return key, value, nil
}

// record returns the record of a task.
func (b buckets) record(id string) (task.Record, error) {
	key, value, err := b.lookup(id)
	if err != nil {
		return task.Record{}, err
	}
	r, err := decodeRecord(key, value)
	if err == nil && r.ID != id {
		err = errDamaged
	}
	if err != nil {
		return task.Record{}, corrupt(key, err)
	}
	return r, nil
}

// brief returns the brief of the task with a key.
func (b buckets) brief(key []byte) (task.Record, error) {
	r, err := decodeBrief(key, b.tasks.Get(key))
	if err != nil {
		return task.Record{}, corrupt(key, err)
	}
	return r, nil
}

func corrupt(key []byte, err error) error {
	return fmt.Errorf("%w: task number %x: %w", task.ErrCorrupt, key, err)
}

// Get implements [task.Store].
func (s *Store) Get(ctx context.Context, id string) (r task.Record, err error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	select {
	case <-s.closing:
		return r, task.ErrClosed
	default:
	}
	if r, ok := s.cache.get(id); ok {
		return r, nil
	}
	err = s.view(func(b buckets) (err error) {
		r, err = b.record(id)
		return err
	})
	return r, err
}

// Wait implements [task.Store].
func (s *Store) Wait(ctx context.Context, id string, revision uint64) (task.Record, error) {
	return s.hub.Wait(ctx, id, revision, s.Get)
}

// List implements [task.Store].
func (s *Store) List(ctx context.Context, owner string, after uint64, limit int) (list []task.Record, err error) {
	if err := ctx.Err(); err != nil || after+1 == 0 {
		return nil, err
	}
	err = s.view(func(b buckets) error {
		prefix := ownerPrefix(owner)
		c := b.owners.Cursor()
		for k, _ := c.Seek(ownerKey(owner, after+1)); len(k) == 24 && string(k[:16]) == string(prefix) && len(list) < limit; k, _ = c.Next() {
			r, err := b.brief(k[16:])
			if err != nil {
				return err
			}
			if r.Owner != owner {
				return corrupt(k[16:], errDamaged)
			}
			list = append(list, r)
		}
		return nil
	})
	return list, err
}

// Scan implements [task.Store]. It holds no transaction while the caller works.
func (s *Store) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		const portion = 256
		for after := uint64(0); ; {
			if err := ctx.Err(); err != nil {
				yield(task.Record{}, err)
				return
			}
			var list []task.Record
			err := s.view(func(b buckets) error {
				c := b.tasks.Cursor()
				for k, v := c.Seek(seqKey(after + 1)); k != nil && len(list) < portion; k, v = c.Next() {
					r, err := decodeBrief(k, v)
					if err != nil {
						return corrupt(k, err)
					}
					list = append(list, r)
				}
				return nil
			})
			if err != nil {
				yield(task.Record{}, err)
				return
			}
			for _, r := range list {
				if !yield(r, nil) {
					return
				}
				after = r.Seq
			}
			if len(list) < portion {
				return
			}
		}
	}
}

// Close implements [task.Store].
func (s *Store) Close() error {
	s.once.Do(func() {
		close(s.closing)
		s.writer.Wait()
		s.hub.Close()
		s.err = s.db.Close()
	})
	return s.err
}

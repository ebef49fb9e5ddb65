// Package bolt provides a durable task store in one file, for one machine. Acknowledged writes
// survive a crash of the process or of the machine. It is built on [bbolt]: one process at a time
// can have a file open.
//
// Concurrent writes share one transaction, and so one synchronisation with the disk. A write is
// not delayed to wait for others.
//
// A write that adds entries to the journal of a task writes these entries and the small part of the
// record, whatever the length of the journal and the size of the payloads. Params of more than 16 KB
// are written when the task is created, and by no change of it.
//
// # Damage
//
// [Open] reads all indexes and every record except its payload, and fails with [task.ErrCorrupt] if
// the file is truncated or damaged. It also derives the free space of the file, so that writes need
// not store it. Payloads are checked when they are read. Damaged data is never
// returned.
//
// When a transaction fails, because the disk is full or broken, its writes fail and Health
// returns the error. Reads continue. Part of the transaction may have reached the disk, so the
// store reopens and checks the file before it writes again. The first write a second or more after
// the failure triggers this check. The store thus recovers by itself once there is free space. While
// it reopens the file, another process may open it. If that process has acquired the store for a
// Manager, all calls fail with [task.ErrLocked] from then on: restart the process.
//
// # Locking
//
// A lock on the file keeps other processes, and other Stores of the same process, from opening it.
// [task.New] ensures that one Manager at a time uses a Store.
//
// # Maintenance
//
// The file does not shrink when tasks are dropped. [Store.Compact] shrinks it and [Store.Backup]
// copies it, both while the store is in use.
//
// [bbolt]: https://pkg.go.dev/go.etcd.io/bbolt
package bolt

import (
	"bytes"
	"context"
	"crypto/rand"
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
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/mcpwire/mcpwire/runtime/internal/boltfile"
	"github.com/mcpwire/mcpwire/runtime/internal/watch"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/taskcode"
)

// lockTimeout is how long Open waits for the lock on the file. A process that is about to exit may
// still hold it.
const lockTimeout = time.Second

// Store is a store of tasks in a file. Create one with [Open]. Its methods may be called
// concurrently. Its Health is the error of the last transaction, and its Close waits for calls of
// Compact and Backup to return.
type Store struct {
	task.Store
	file *store
}

// Compact rewrites the file without the space of dropped tasks. It needs as much free disk space as
// the records take. During the call, reads continue and writes block. If it fails, the store keeps
// using its current file. It is not supported where an open file cannot be renamed, as on Windows.
func (s *Store) Compact() error { return s.file.compact() }

// Backup writes a consistent copy of the store to the file path. [Open] accepts the copy. While it
// is incomplete, the copy is in path + ".partial"; a file that an interrupted Backup has left there
// is replaced. The complete copy replaces an existing file at path.
//
// Reads and writes continue during the call, unless a write needs a larger memory map of the
// store's file. That write, and all reads and writes after it, block until the copy is complete.
// The map doubles up to 1 GiB, and then grows by 1 GiB.
func (s *Store) Backup(path string) error { return s.file.backup(path) }

// store implements [task.Store].
type store struct {
	task.Local

	path    string
	hub     watch.Hub
	cache   cache
	writes  chan *write
	closing chan struct{} // closed by Close
	stopped chan struct{} // closed when the writer has returned
	once    sync.Once
	err     error // of closing db; read after once

	owner atomic.Pointer[[]byte] // token of Acquire; nil without one
	fault atomic.Pointer[error]  // why the last transaction failed; nil if it succeeded

	maintenance sync.Mutex   // held by Compact and Backup; locked before the others
	writing     sync.Mutex   // held while a transaction writes; locked before mu
	mu          sync.RWMutex // read-locked while db is used, locked while it is replaced
	db          *bbolt.DB    // nil if it could not be reopened after a failure
}

var _ task.Store = (*store)(nil)

// Open opens the store in the file path, and creates the file if it does not exist. It fails with
// [task.ErrLocked] if another process, or another Store of this process, still has the file open
// after a second, and with [task.ErrCorrupt] if the file is damaged or empty.
func Open(path string) (*Store, error) {
	s, err := open(path)
	if err != nil {
		return nil, err
	}
	return &Store{Store: s, file: s}, nil
}

func open(path string) (*store, error) {
	path, err := filepath.Abs(path) // the working directory may change before the file is reopened
	if err != nil {
		return nil, fmt.Errorf("bolt: %w", err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := initialize(path, os.Link); errors.Is(err, bolterrors.ErrTimeout) {
			return nil, locked(path)
		} else if err != nil {
			return nil, fmt.Errorf("bolt: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("bolt: %w", err)
	case info.Size() == 0:
		return nil, fmt.Errorf("%w: %s is empty", task.ErrCorrupt, path)
	}
	s := newStore(path)
	if s.db, err = openDB(path, lockTimeout); err != nil {
		return nil, err
	}
	if err := verify(s.db, path); err != nil {
		s.db.Close()
		return nil, err
	}
	boltfile.RemoveCompact(path)
	go s.write() // ends when Close closes s.closing
	return s, nil
}

func newStore(path string) *store {
	return &store{path: path, writes: make(chan *write, maxBatch), closing: make(chan struct{}), stopped: make(chan struct{})}
}

// locked returns the error for a file that is in use.
func locked(path string) error { return fmt.Errorf("bolt: %s: %w", path, task.ErrLocked) }

// Acquire implements [task.Store]. It opens the file if that has failed after a failed write. It
// stores a random token, by which the store notices that another process has used the file while it
// was being reopened after a failure. If the token cannot be stored, because the disk is full, the
// store does not notice that.
func (s *store) Acquire() (release func(), err error) {
	if release, err = s.Local.Acquire(); err != nil {
		return nil, err
	}
	s.owner.Store(nil) // the caller has no tasks yet
	if err := s.openLater(); err != nil {
		release()
		return nil, err
	}
	token := make([]byte, 16)
	rand.Read(token)
	s.submit(context.Background(), func(b buckets) error {
		owner, err := b.tasks.Tx().CreateBucketIfNotExists(ownerBucket)
		if err != nil {
			return err
		}
		return owner.Put(ownerKeyName, token)
	}, func() { s.owner.Store(&token) })
	return release, nil
}

// checkOwner fails if another process has acquired the store since this one has.
func (s *store) checkOwner(db *bbolt.DB) error {
	own := s.owner.Load()
	if own == nil {
		return nil
	}
	return view(db, func(b buckets) error {
		if owner := b.tasks.Tx().Bucket(ownerBucket); owner == nil || !bytes.Equal(owner.Get(ownerKeyName), *own) {
			return fmt.Errorf("bolt: %s: another process has used the file after a failure, restart this one: %w", s.path, task.ErrLocked)
		}
		return nil
	})
}

// openLater opens the file if it is not open.
func (s *store) openLater() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.RLock()
	open := s.db != nil
	s.mu.RUnlock()
	if open {
		return nil
	}
	if err := s.reopen(0); err != nil {
		s.fault.Store(&err)
		return err
	}
	s.fault.Store(nil)
	boltfile.RemoveCompact(s.path)
	return nil
}

// initialize creates an empty store in the file path. It completes a temporary file and links it to
// path, so that an incomplete file at path is a damaged store and never one that is being created.
// link is [os.Link]. If it fails, as on file systems without hard links, the store is created at
// path directly.
func initialize(path string, link func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".task-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	f.Close()
	if err := makeBuckets(f.Name()); err != nil {
		return err
	}
	// A link, unlike a rename, does not replace a file that another process has created meanwhile.
	if err := link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		if err := makeBuckets(path); err != nil {
			return err
		}
	}
	return boltfile.SyncDir(filepath.Dir(path))
}

// makeBuckets creates the missing buckets in a file, under its lock.
func makeBuckets(path string) error {
	db, err := boltfile.Open(path, 0o600, lockTimeout)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range bucketNames {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// openDB opens the database in a file. It fails with ErrLocked if the file is still in use after
// timeout, and with ErrCorrupt if the file is damaged.
func openDB(path string, timeout time.Duration) (*bbolt.DB, error) {
	db, err := boltfile.Open(path, 0o600, max(timeout, 1)) // for bbolt, 0 is no limit
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, locked(path)
	}
	if err != nil {
		// A system error, such as too many open files.
		if _, ok := errors.AsType[syscall.Errno](err); ok {
			return nil, fmt.Errorf("bolt: %w", err)
		}
		return nil, fmt.Errorf("%w: %s: %w", task.ErrCorrupt, path, err)
	}
	return db, nil
}

// The buckets. The key of a task is its Seq, so that new and running tasks, which are written most
// often, are adjacent. The buckets ids, owners and expiry are indexes. The others are created
// with the first task that needs them: files of earlier versions do not have them.
var (
	tasksBucket  = []byte("tasks")  // Seq to record, or to its head if the body is in payloads
	idsBucket    = []byte("ids")    // id to Seq
	ownersBucket = []byte("owners") // digest of the owner and Seq; no value
	expiryBucket = []byte("expiry") // microseconds since 1970 and Seq; no value

	payloadsBucket = []byte("payloads") // Seq to the body of a record whose journal has entries
	entriesBucket  = []byte("entries")  // Seq and number from 0 to an entry of a journal
	paramsBucket   = []byte("params")   // Seq to the params of a record if they are large
	ownerBucket    = []byte("owner")    // ownerKeyName to the token of the latest Acquire

	ownerKeyName = []byte("token")

	bucketNames = [][]byte{tasksBucket, idsBucket, ownersBucket, expiryBucket}
)

// buckets holds the buckets of a transaction.
type buckets struct{ tasks, ids, owners, expiry *bbolt.Bucket }

func bucketsOf(tx *bbolt.Tx) (b buckets, err error) {
	b = buckets{tx.Bucket(tasksBucket), tx.Bucket(idsBucket), tx.Bucket(ownersBucket), tx.Bucket(expiryBucket)}
	if b.tasks == nil || b.ids == nil || b.owners == nil || b.expiry == nil {
		return b, fmt.Errorf("%w: bucket is missing", task.ErrCorrupt)
	}
	return b, nil
}

// entryKey returns the key of an entry of the task with the given key.
func entryKey(key []byte, number int) []byte {
	k := make([]byte, 0, 12)
	return binary.BigEndian.AppendUint32(append(k, key...), uint32(number))
}

func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }

// ownerPrefix returns the prefix of an owner's keys. It is a digest, because owners may have any
// length and contain any bytes.
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

// view calls read in a read-only transaction. Damage is reported as an error, not a panic.
func (s *store) view(read func(b buckets) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		return s.Health()
	}
	err := view(s.db, read)
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return task.ErrClosed
	}
	return err
}

func view(db *bbolt.DB, read func(b buckets) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", task.ErrCorrupt, p)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return db.View(func(tx *bbolt.Tx) error {
		b, err := bucketsOf(tx)
		if err != nil {
			return err
		}
		return read(b)
	})
}

// lookup returns the key and the encoded record of the task id.
func (b buckets) lookup(id string) (key, value []byte, err error) {
	if key = b.ids.Get([]byte(id)); key == nil {
		return nil, nil, task.ErrNotFound
	}
	if value = b.tasks.Get(key); value == nil {
		return nil, nil, fmt.Errorf("%w: task %q has no record", task.ErrCorrupt, id)
	}
	return key, value, nil
}

// record returns the record of the task id.
func (b buckets) record(id string) (task.Record, error) {
	key, value, err := b.lookup(id)
	if err != nil {
		return task.Record{}, err
	}
	r, err := taskcode.DecodeRecord(key, value, b.valueOf(payloadsBucket, key), b.valueOf(paramsBucket, key))
	if err == nil && r.ID != id {
		err = taskcode.ErrDamaged
	}
	if err != nil {
		return task.Record{}, corrupt(key, err)
	}
	return r, nil
}

// valueOf returns a function that returns the value of a key in a bucket that may not exist.
func (b buckets) valueOf(bucket, key []byte) func() []byte {
	return func() []byte {
		if b := b.tasks.Tx().Bucket(bucket); b != nil {
			return b.Get(key)
		}
		return nil
	}
}

// brief returns the brief of the task with a key.
func (b buckets) brief(key []byte) (task.Record, error) {
	r, err := taskcode.DecodeBrief(key, b.tasks.Get(key))
	if err != nil {
		return task.Record{}, corrupt(key, err)
	}
	return r, nil
}

func corrupt(key []byte, err error) error {
	return fmt.Errorf("%w: task with key %x: %w", task.ErrCorrupt, key, err)
}

// journal returns the entries of the task id.
func (b buckets) journal(id string) ([]task.Entry, error) {
	key, value, err := b.lookup(id)
	if err != nil {
		return nil, err
	}
	r, err := taskcode.DecodeBrief(key, value)
	if err != nil {
		return nil, corrupt(key, err)
	}
	if taskcode.Recorded(r.Durable) == 0 {
		return nil, nil
	}
	entries := b.tasks.Tx().Bucket(entriesBucket)
	if entries == nil {
		return nil, corrupt(key, taskcode.ErrDamaged)
	}
	var list []task.Entry
	c := entries.Cursor()
	k, v := c.Seek(entryKey(key, 0))
	for n := range r.Durable.Recorded {
		if !bytes.Equal(k, entryKey(key, n)) {
			return nil, corrupt(key, fmt.Errorf("entry %d of %d is missing", n, r.Durable.Recorded))
		}
		e, err := taskcode.DecodeEntry(k, v)
		if err != nil {
			return nil, corrupt(k, err)
		}
		list = append(list, e)
		k, v = c.Next()
	}
	return list, nil
}

// Journal implements [task.Store].
func (s *store) Journal(ctx context.Context, id string) (entries []task.Entry, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.isClosing() {
		return nil, task.ErrClosed
	}
	err = s.view(func(b buckets) (err error) {
		entries, err = b.journal(id)
		return err
	})
	return entries, err
}

// isClosing reports whether Close was called.
func (s *store) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Get implements [task.Store].
func (s *store) Get(ctx context.Context, id string) (r task.Record, err error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	if s.isClosing() {
		return r, task.ErrClosed
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
func (s *store) Wait(ctx context.Context, id string, revision uint64) (r task.Record, err error) {
	err = s.hub.Wait(ctx, id, revision, s.Get, &r)
	return r, err
}

// List implements [task.Store].
func (s *store) List(ctx context.Context, owner string, after uint64, limit int) (list []task.Record, err error) {
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
				return corrupt(k[16:], taskcode.ErrDamaged)
			}
			list = append(list, r)
		}
		return nil
	})
	return list, err
}

// Scan implements [task.Store]. No transaction is open while the caller's loop body runs.
func (s *store) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
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
					r, err := taskcode.DecodeBrief(k, v)
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

// Health implements [task.Store]. It returns the error of the last transaction, nil if that
// succeeded, or [task.ErrClosed].
func (s *store) Health() error {
	if s.isClosing() {
		return task.ErrClosed
	}
	if fault := s.fault.Load(); fault != nil {
		return *fault
	}
	return nil
}

// Close implements [task.Store]. It waits for calls of Compact and Backup to return.
func (s *store) Close() error {
	s.once.Do(func() {
		close(s.closing)
		<-s.stopped
		s.hub.Close()
		s.maintenance.Lock()
		defer s.maintenance.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.db != nil {
			s.err = s.db.Close()
		}
	})
	return s.err
}

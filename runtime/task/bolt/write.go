package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/taskcode"
)

// maxBatch is the largest number of writes in one transaction.
const maxBatch = 512

// write is a change that is queued for a transaction.
type write struct {
	ctx context.Context
	// do makes the change. If it returns a refusal, it has changed nothing, and only this write
	// fails. Any other error fails the transaction.
	do      func(b buckets) error
	publish func() // called once the change is durable

	err  error
	done chan struct{} // closed when err is final
}

// refusal marks an error that concerns one write and not the others of its transaction.
type refusal struct{ error }

// Unwrap returns the error itself.
func (r refusal) Unwrap() error { return r.error }

// submit hands a change to the writer and waits until it is durable or refused.
func (s *store) submit(ctx context.Context, do func(b buckets) error, publish func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &write{ctx: ctx, do: do, publish: publish, done: make(chan struct{})}
	if s.isClosing() {
		return task.ErrClosed
	}
	select {
	case s.writes <- w:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return task.ErrClosed
	}
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
		// If the writer has checked ctx before ctx ended, it still makes the change.
		return ctx.Err()
	case <-s.stopped:
		select {
		case <-w.done:
			return w.err
		default: // w was queued after the writer had emptied the queue and returned
			return task.ErrClosed
		}
	}
}

// retryPause is how long the store refuses writes after a failed transaction.
const retryPause = time.Second

// write is the writer goroutine. It repeatedly writes all queued changes in one transaction. During
// a transaction, the changes of the next one are queued.
func (s *store) write() {
	defer close(s.stopped)
	var retry time.Time // when to try again after a failure
	batch := make([]*write, 0, maxBatch)
	for {
		batch = batch[:0]
		select {
		case w := <-s.writes:
			batch = append(batch, w)
		case <-s.closing:
			s.refuse(task.ErrClosed)
			return
		}
		batch = s.gather(batch)
		var err error
		fault := s.fault.Load()
		if fault != nil && time.Now().Before(retry) {
			err = *fault
		} else if err = s.transact(batch, fault != nil); err != nil {
			retry = time.Now().Add(retryPause)
		}
		for _, w := range batch {
			if err != nil {
				w.err = err
			} else if w.err == nil {
				w.publish()
			}
			close(w.done)
		}
		clear(batch)
	}
}

// transact writes a batch. If the last transaction has failed, it reopens the file first.
func (s *store) transact(batch []*write, failed bool) (err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if failed {
		err = s.reopen(lockTimeout)
	}
	if err == nil {
		err = s.commit(batch)
	}
	if err != nil {
		s.fault.Store(&err)
	} else if failed {
		s.fault.Store(nil)
	}
	return err
}

// reopen reopens and checks the file. It waits for the lock for as long as timeout. The file may
// contain the failed transaction or not, so cached records may be out of date.
func (s *store) reopen(timeout time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		s.db.Close()
	}
	if s.db == nil && s.isClosing() { // Close may have returned
		return task.ErrClosed
	}
	var err error
	if s.db, err = openDB(s.path, timeout); err != nil {
		return err
	}
	if err = s.checkOwner(s.db); err == nil {
		err = verify(s.db, s.path)
	}
	if err != nil {
		s.db.Close()
		s.db = nil
		return err
	}
	s.cache.clear()
	s.hub.Recheck()
	return nil
}

// gather adds all queued writes to a batch. Callers whose write was in the last transaction often
// submit another one at once. gather therefore yields to them as long as writes arrive.
func (s *store) gather(batch []*write) []*write {
	for before := 0; before < len(batch) && len(batch) < maxBatch; {
		before = len(batch)
		runtime.Gosched()
		for more := true; more && len(batch) < maxBatch; {
			select {
			case w := <-s.writes:
				batch = append(batch, w)
			default:
				more = false
			}
		}
	}
	return batch
}

// refuse fails all queued writes with err.
func (s *store) refuse(err error) {
	for {
		select {
		case w := <-s.writes:
			w.err = err
			close(w.done)
		default:
			return
		}
	}
}

// commit writes a batch in one transaction. If it returns an error, all writes of the batch have
// failed. The error of a single write is in its err.
func (s *store) commit(batch []*write) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", task.ErrCorrupt, p)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return s.db.Update(func(tx *bbolt.Tx) error {
		b, err := bucketsOf(tx)
		if err != nil {
			return err
		}
		for _, w := range batch {
			if w.err = w.ctx.Err(); w.err != nil {
				continue
			}
			var refused refusal
			if err := w.do(b); errors.As(err, &refused) {
				w.err = refused.error
			} else if err != nil {
				return err
			}
		}
		return nil
	})
}

// Create implements [task.Store].
func (s *store) Create(ctx context.Context, r task.Record) (task.Record, error) {
	var stored task.Record
	err := s.submit(ctx, func(b buckets) error {
		stored = r
		return b.create(&stored)
	}, func() { s.cache.put(&stored) })
	if err != nil {
		return task.Record{}, err
	}
	return stored, nil
}

// create stores a new record, and sets its Seq and its Revision.
func (b buckets) create(r *task.Record) error {
	id := []byte(r.ID)
	if len(id) == 0 || len(id) > bbolt.MaxKeySize {
		return refusal{fmt.Errorf("bolt: create: task id of %d bytes (must be 1 to %d)", len(id), bbolt.MaxKeySize)}
	}
	if b.ids.Get(id) != nil {
		return refusal{task.ErrExists}
	}
	seq, err := b.tasks.NextSequence()
	if err != nil {
		return err
	}
	r.Seq, r.Revision = seq, 1
	key := seqKey(seq)
	if err := b.put(key, replaced{}, r); err != nil {
		return err
	}
	if err := b.ids.Put(id, key); err != nil {
		return err
	}
	if err := b.owners.Put(ownerKey(r.Owner, seq), nil); err != nil {
		return err
	}
	if r.TTL == 0 {
		return nil
	}
	return b.expiry.Put(expiryKey(r.Expires(), seq), nil)
}

// Update implements [task.Store].
func (s *store) Update(ctx context.Context, r task.Record) (task.Record, error) {
	var stored task.Record
	err := s.submit(ctx, func(b buckets) error {
		key, value, err := b.lookup(r.ID)
		if errors.Is(err, task.ErrNotFound) {
			return refusal{err}
		} else if err != nil {
			return err
		}
		old, params, err := taskcode.DecodeHead(key, value)
		if err != nil {
			return corrupt(key, err)
		}
		if old.Revision != r.Revision {
			return refusal{task.ErrConflict}
		}
		stored = r
		stored.Owner, stored.Seq, stored.Created, stored.TTL, stored.Token = old.Owner, old.Seq, old.Created, old.TTL, old.Token
		stored.Revision++
		if stored.Params, err = b.keptParams(key, value, &old, params, r.Params); err != nil {
			return corrupt(key, err)
		}
		return b.put(bytes.Clone(key), replaced{old.Durable, params}, &stored)
	}, func() {
		s.cache.put(&stored)
		s.hub.Publish(&stored)
	})
	if err != nil {
		return task.Record{}, err
	}
	return stored, nil
}

// keptParams returns the params that an update to a record with the given params leaves. Value is
// the encoded record, old its head, and size that of its params if they are apart. To compare the
// params costs less than to decode or to write them.
func (b buckets) keptParams(key, value []byte, old *task.Record, size int, params json.RawMessage) (json.RawMessage, error) {
	if len(params) == 0 {
		return nil, nil
	}
	var present json.RawMessage
	var err error
	if size > 0 {
		present, err = taskcode.DecodeParams(key, b.valueOf(paramsBucket, key)(), size)
	} else {
		present, err = taskcode.BodyParams(key, value, old, b.valueOf(payloadsBucket, key))
	}
	if err != nil || bytes.Equal(present, params) {
		return params, err
	}
	return append(json.RawMessage(nil), present...), nil // nil if there are none
}

// replaced says what the record that a write replaces has outside of the bucket of tasks. It is zero
// if the write creates the record.
type replaced struct {
	durable *task.Durable
	params  int // size of its params if they are apart
}

// put writes a record and adds its entries to the journal. It removes the entries from the record.
func (b buckets) put(key []byte, before replaced, r *task.Record) error {
	if taskcode.Recorded(r.Durable) == 0 && (r.Durable == nil || len(r.Durable.Entries) == 0) {
		return errors.Join(b.putParams(key, before.params, r), b.tasks.Put(key, taskcode.EncodeRecord(key, r)), b.dropJournal(key, before.durable))
	}
	d, earlier := *r.Durable, taskcode.Recorded(before.durable)
	added := d.Entries
	stay := d.Recorded - len(added)
	if stay < 0 || stay > earlier || d.Recorded > taskcode.MaxEntries {
		return refusal{fmt.Errorf("bolt: journal of %d entries cannot have %d after %d are added", earlier, d.Recorded, len(added))}
	}
	d.Entries = nil
	r.Durable = &d
	if err := b.putParams(key, before.params, r); err != nil {
		return err
	}
	entries, err := b.tasks.Tx().CreateBucketIfNotExists(entriesBucket)
	if err != nil {
		return err
	}
	payloads, err := b.tasks.Tx().CreateBucketIfNotExists(payloadsBucket)
	if err != nil {
		return err
	}
	for n := earlier - 1; n >= stay; n-- {
		if err := entries.Delete(entryKey(key, n)); err != nil {
			return err
		}
	}
	for i := range added {
		k := entryKey(key, stay+i)
		if err := entries.Put(k, taskcode.EncodeEntry(k, &added[i])); err != nil {
			return err
		}
	}
	body := make([]byte, 0, 64+len(r.Result)+len(r.Error))
	if body = taskcode.AppendBody(body, key, r); !bytes.Equal(body, payloads.Get(key)) {
		if err := payloads.Put(key, body); err != nil {
			return err
		}
	}
	return b.tasks.Put(key, taskcode.AppendHead(make([]byte, 0, 256+len(r.StatusMessage)), key, r))
}

// putParams writes the params of a record if they are apart and were not before, or removes them.
// Before is their size in the record that is replaced, or 0.
func (b buckets) putParams(key []byte, before int, r *task.Record) error {
	switch apart := taskcode.ParamsApart(r); {
	case apart && before == 0:
		params, err := b.tasks.Tx().CreateBucketIfNotExists(paramsBucket)
		if err != nil {
			return err
		}
		return params.Put(key, taskcode.EncodeParams(key, r.Params))
	case !apart && before > 0:
		return b.dropParams(key, before)
	}
	return nil
}

// dropParams removes the params of a record if their size is not 0.
func (b buckets) dropParams(key []byte, size int) error {
	if size == 0 {
		return nil
	}
	params := b.tasks.Tx().Bucket(paramsBucket)
	if params == nil {
		return corrupt(key, taskcode.ErrDamaged)
	}
	return params.Delete(key)
}

// dropJournal removes the payloads and the entries of a record with the given Durable, which may be
// nil.
func (b buckets) dropJournal(key []byte, d *task.Durable) error {
	if taskcode.Recorded(d) == 0 {
		return nil
	}
	payloads, entries := b.tasks.Tx().Bucket(payloadsBucket), b.tasks.Tx().Bucket(entriesBucket)
	if payloads == nil || entries == nil {
		return corrupt(key, taskcode.ErrDamaged)
	}
	err := payloads.Delete(key)
	for n := d.Recorded - 1; n >= 0 && err == nil; n-- {
		err = entries.Delete(entryKey(key, n))
	}
	return err
}

// Sweep implements [task.Store].
func (s *store) Sweep(ctx context.Context, now time.Time, limit int) (dropped []task.Record, next time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return nil, next, err
	}
	// Most calls find no expired task. A read-only transaction needs no write to the disk.
	due := false
	err = s.view(func(b buckets) error {
		if k, _ := b.expiry.Cursor().First(); k != nil {
			next = expiryOf(k)
			due = !next.After(now)
		}
		return nil
	})
	if err != nil || !due || limit < 1 {
		return nil, next, err
	}
	// Separate from the result parameters, because the writer may set them after submit has
	// returned.
	var briefs []task.Record
	var following time.Time
	err = s.submit(ctx, func(b buckets) (err error) {
		briefs, following, err = b.sweep(now, limit)
		return err
	}, func() {
		for i := range briefs {
			s.cache.drop(briefs[i].ID)
			s.hub.Remove(briefs[i].ID)
		}
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return briefs, following, nil
}

func expiryOf(key []byte) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64(key))).UTC()
}

// sweep drops at most limit tasks that have expired at now. It returns their briefs and when the
// next task expires.
func (b buckets) sweep(now time.Time, limit int) (dropped []task.Record, next time.Time, err error) {
	var retained []byte // the key of the latest task that is left out
	for {
		// A new cursor each time: deleting from the bucket invalidates it.
		cursor := b.expiry.Cursor()
		first, _ := cursor.First()
		if retained != nil {
			cursor.Seek(retained)
			first, _ = cursor.Next()
		}
		if first == nil {
			return dropped, time.Time{}, nil
		}
		if next = expiryOf(first); next.After(now) || len(dropped) == limit {
			return dropped, next, nil
		}
		first = bytes.Clone(first)
		key := first[8:]
		r, params, err := taskcode.DecodeHead(key, b.tasks.Get(key))
		if err != nil {
			return nil, next, corrupt(key, err)
		}
		if r.Retained(now) {
			retained = first
			continue
		}
		err = errors.Join(b.expiry.Delete(first), b.tasks.Delete(key), b.ids.Delete([]byte(r.ID)), b.owners.Delete(ownerKey(r.Owner, r.Seq)), b.dropJournal(key, r.Durable), b.dropParams(key, params))
		if err != nil {
			return nil, next, err
		}
		dropped = append(dropped, r)
	}
}

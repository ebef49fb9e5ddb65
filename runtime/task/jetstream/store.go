package jetstream

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/taskcode"
)

// place has the names of the stream and of the subjects of a task.
type place struct {
	partition int
	stream    string // of its record
	prefix    string // of its subjects
	record    string // subject of its record
	token     string // of its id
}

// place returns the place of a task.
func (s *store) place(id string) place {
	h := fnv.New32a()
	h.Write([]byte(id))
	n := int(h.Sum32() % uint32(s.partitions))
	at := place{partition: n, stream: s.recordStream(n), prefix: s.prefix(n), token: token(id)}
	at.record = at.prefix + ".r." + at.token
	return at
}

// ownerPlace returns the stream and the prefix of the index of an owner, and the token of the
// owner. The token is a digest, because owners may have any length and contain any bytes.
func (s *store) ownerPlace(owner string) (stream, prefix, token string) {
	sum := sha256.Sum256([]byte(owner))
	n := int(binary.BigEndian.Uint32(sum[:]) % uint32(s.partitions))
	return s.indexStream(n), s.prefix(n), hex.EncodeToString(sum[:16])
}

// validID reports whether a task may have the id.
func validID(id string) bool { return len(id) > 0 && len(id) <= maxID }

// begin returns an error if ctx has ended or the store is closed. Each call begins with it.
func (s *store) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.lifetime.Err() != nil {
		return task.ErrClosed
	}
	return nil
}

// observe reports a call to Options.Observe; use it with defer.
func (s *store) observe(operation string, start time.Time, err *error) {
	if s.options.Observe != nil {
		s.options.Observe(operation, time.Since(start), *err)
	}
}

// errMoved reports that the last message of a subject is not the expected one.
var errMoved = errors.New("another write came first")

// load returns the record of a task from the leader, or nil if there is none. Its payloads are
// missing if they are in parts.
func (s *store) load(ctx context.Context, id string) (r *stored, err error) {
	err = s.retry(ctx, "read task", func(ctx context.Context) (err error) {
		r, err = s.loadOnce(ctx, id)
		return err
	})
	return r, err
}

// loadOnce is load with one attempt.
func (s *store) loadOnce(ctx context.Context, id string) (*stored, error) {
	at := s.place(id)
	m, err := s.read(ctx, at.stream, getRequest{Last: at.record})
	if err != nil {
		return nil, err
	}
	if m == nil {
		s.cache.drop(id)
		return nil, nil
	}
	r, err := decode(m)
	if err == nil && r.record.ID != id {
		err = corrupt(m, taskcode.ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	if member := s.member.Load(); member != nil && r.seq < member.announced(at.hints()) {
		return nil, errOutdated
	}
	s.cache.put(r)
	return r, nil
}

// find is load for calls that fail with [task.ErrNotFound] if there is no record. It does not rely
// on a read alone, because a server that was cut off and still acts as leader lacks new tasks.
func (s *store) find(ctx context.Context, id string) (r *stored, err error) {
	err = s.retry(ctx, "read task", func(ctx context.Context) (err error) {
		if r, err = s.loadOnce(ctx, id); err != nil || r != nil {
			return err
		}
		at := s.place(id)
		none, err := s.confirmNone(ctx, at.prefix, "_", at.record)
		switch {
		case none || errors.Is(err, ErrFull): // a full stream accepts nothing
			return task.ErrNotFound
		case err == nil:
			return errOutdated
		}
		return err
	})
	return r, err
}

// write makes a change to a record whose last message has the sequence expect. If the last message
// is another one, write returns errMoved and the present record, or nil if there is no record. It
// recognises its own write if the acknowledgement was lost. Its error wraps [task.ErrDoubtful] if
// the write of a new record may still arrive: a server that hangs may pass it on later.
func (s *store) write(ctx context.Context, c *change, expect uint64) (present *stored, err error) {
	at := s.place(c.next.record.ID)
	var rest []string
	unsure := false      // whether an earlier attempt may have written
	overwritten := false // whether another write has followed
	// settle reads the record after an attempt with an unknown outcome. It sets c.next.seq and
	// returns true if an attempt has written.
	settle := func(ctx context.Context) (done bool, err error) {
		if present, err = s.load(ctx, c.next.record.ID); err != nil {
			return false, err
		}
		switch {
		case present != nil && present.includes(c.next.write):
			c.next.seq = present.seq
			if present.write != c.next.write {
				overwritten = true
			}
			return true, nil
		case present == nil && expect == 0 || present != nil && present.seq == expect:
			// Earlier attempts may still be pending. At most one attempt succeeds.
			return false, nil
		}
		return false, errMoved
	}
	err = s.retry(ctx, "write task", func(ctx context.Context) error {
		if unsure {
			if done, err := settle(ctx); done || err != nil {
				return err
			}
		}
		var messages []*nats.Msg
		messages, rest = c.messages(at.record, expect, s.earlier())
		seq, err := s.publish(ctx, messages...)
		switch {
		case err == nil:
			c.next.seq = seq
		case hasCode(err, codeWrongSequence, codeSequenceInProcess):
			done, failed := settle(ctx)
			if done || failed != nil {
				return failed
			}
			return errRepeat{err}
		case transient(err):
			unsure = true
		}
		return err
	})
	s.report(err)
	if err != nil && unsure && expect == 0 && !errors.Is(err, errMoved) {
		err = fmt.Errorf("%w: %w", task.ErrDoubtful, err)
	}
	if m := s.member.Load(); m != nil && !errors.Is(err, errMoved) {
		seq := c.next.seq
		if overwritten {
			seq = 0 // it is that of the other write
		}
		m.wrote(at.hints(), c.next.write, seq, err)
	}
	if err != nil {
		return present, err
	}
	s.rooms[at.partition].taken.Add(c.size())
	for subjects := range slices.Chunk(rest, maxBatch) {
		s.removeParts(ctx, subjects)
	}
	if !overwritten {
		s.cache.put(c.next)
	}
	return nil, nil
}

// errRepeat marks an error after which the attempt is repeated.
type errRepeat struct{ error }

// Is makes the error transient.
func (errRepeat) Is(target error) bool { return target == nats.ErrTimeout }

// removeParts replaces parts by empty messages that expire after tombstone. If it fails, the parts
// remain until their own lifetime ends; see ttlOf.
func (s *store) removeParts(ctx context.Context, subjects []string) {
	var messages []*nats.Msg
	for _, subject := range subjects {
		messages = append(messages, newMessage(subject, nil, tombstone))
	}
	if len(messages) > 0 {
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
		defer cancel()
		s.publish(ctx, messages...)
	}
}

// Create implements [task.Store]. The id must have 1 to 128 bytes.
func (s *store) Create(ctx context.Context, r task.Record) (created task.Record, err error) {
	defer s.observe("create", time.Now(), &err)
	if err := s.begin(ctx); err != nil {
		return task.Record{}, err
	}
	if !validID(r.ID) {
		return task.Record{}, fmt.Errorf("jetstream: create: task id of %d bytes (must be 1 to %d)", len(r.ID), maxID)
	}
	r.Revision = 1
	var index indexed
	if err = s.checkRoom(ctx, s.place(r.ID).partition); err == nil {
		index, err = s.addToIndexes(ctx, &r)
	}
	if err != nil {
		s.report(err)
		return task.Record{}, err
	}
	r.Seq = index.owner
	c, err := s.prepare(nil, r, index.held, nil)
	if err == nil {
		_, err = s.write(ctx, c, 0)
	}
	if err == nil {
		s.published(c.next)
		return c.next.record, nil
	}
	if ctx.Err() == nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, task.ErrDoubtful) {
		s.removeFromIndexes(ctx, index) // the record was not written
	}
	if errors.Is(err, errMoved) {
		err = task.ErrExists
	}
	return task.Record{}, err
}

// Get implements [task.Store]. It reads from the leader.
func (s *store) Get(ctx context.Context, id string) (r task.Record, err error) {
	defer s.observe("get", time.Now(), &err)
	found, err := s.get(ctx, id)
	if err != nil {
		return task.Record{}, err
	}
	return found.record, nil
}

// maxRereads is how often a call reads a record again because its parts were replaced meanwhile.
const maxRereads = 10

// get returns the record of a task with its payloads.
func (s *store) get(ctx context.Context, id string) (*stored, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	if !validID(id) {
		return nil, task.ErrNotFound
	}
	for n := 0; ; n++ {
		r, err := s.find(ctx, id)
		if err != nil {
			return nil, err
		}
		err = s.readPayloads(ctx, r)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, errReplaced) || n == maxRereads {
			return nil, err
		}
	}
}

// readPayloads reads the payloads of a record that are in parts.
func (s *store) readPayloads(ctx context.Context, r *stored) error {
	params := r.record.Params
	if r.body.parts > 0 {
		body, err := s.readBlob(ctx, r.record.ID, &r.body)
		if err != nil {
			return err
		}
		if err := taskcode.DecodeBody(recordKey(&r.record), body, &r.record); err != nil {
			return fmt.Errorf("%w: payloads of task %q: %w", task.ErrCorrupt, r.record.ID, err)
		}
	}
	if r.params.parts > 0 {
		var err error
		if params, err = s.readBlob(ctx, r.record.ID, &r.params); err != nil {
			return err
		}
	}
	if len(params) > 0 {
		r.record.Params = params
	}
	return nil
}

// errReplaced reports that a part does not exist. Its record was changed, or is damaged.
var errReplaced = fmt.Errorf("%w: part is missing", task.ErrCorrupt)

// readers is the number of messages that a call reads at once.
const readers = 16

// readBlob returns the data of a blob of a task.
func (s *store) readBlob(ctx context.Context, id string, b *blob) ([]byte, error) {
	at := s.place(id)
	parts := make([][]byte, b.parts)
	err := parallel(b.parts, readers, func(n int) error {
		subject := b.subject(at.prefix, at.token, n)
		return s.retry(ctx, "read part", func(ctx context.Context) error {
			// Parts never change, so any replica that has the part can answer.
			m, err := s.readAnywhere(ctx, at.stream, subject)
			if err == nil && (m == nil || len(m.Data) == 0) {
				m, err = s.read(ctx, at.stream, getRequest{Last: subject})
			}
			if err == nil && (m == nil || len(m.Data) == 0) {
				err = errReplaced
			}
			if err == nil {
				parts[n] = m.Data
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	data := slices.Concat(parts...)
	if uint64(len(data)) != b.size || crc32.Checksum(data, castagnoli) != b.sum {
		return nil, fmt.Errorf("%w: parts of task %q are damaged", task.ErrCorrupt, id)
	}
	return data, nil
}

// parallel calls f for the numbers below n, with at most limit calls at a time. After the first
// error it begins no more calls, and returns that error.
func parallel(n, limit int, f func(n int) error) error {
	if n == 1 {
		return f(0)
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	var failed error
	next := 0
	for range min(n, limit) {
		group.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := i >= n || failed != nil
				mu.Unlock()
				if stop {
					return
				}
				if err := f(i); err != nil {
					mu.Lock()
					failed = cmp.Or(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return failed
}

// Journal implements [task.Store].
func (s *store) Journal(ctx context.Context, id string) (entries []task.Entry, err error) {
	defer s.observe("journal", time.Now(), &err)
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	if !validID(id) {
		return nil, task.ErrNotFound
	}
	for n := 0; ; n++ {
		r, err := s.find(ctx, id)
		if err != nil {
			return nil, err
		}
		entries, err := s.entries(ctx, r)
		if !errors.Is(err, errReplaced) || n == maxRereads {
			return entries, err
		}
	}
}

// entries returns the journal of a record.
func (s *store) entries(ctx context.Context, r *stored) ([]task.Entry, error) {
	if r.journal.parts == 0 {
		return r.tail, nil
	}
	data, err := s.readBlob(ctx, r.record.ID, &r.journal)
	if err != nil {
		return nil, err
	}
	entries, err := decodeEntries(data)
	if err == nil && len(entries) != r.flushed {
		err = taskcode.ErrDamaged
	}
	if err != nil {
		return nil, fmt.Errorf("%w: journal of task %q: %w", task.ErrCorrupt, r.record.ID, err)
	}
	return append(entries, r.tail...), nil
}

// Update implements [task.Store].
func (s *store) Update(ctx context.Context, r task.Record) (updated task.Record, err error) {
	defer s.observe("update", time.Now(), &err)
	if err := s.begin(ctx); err != nil {
		return task.Record{}, err
	}
	if !validID(r.ID) {
		return task.Record{}, task.ErrNotFound
	}
	present := s.cache.get(r.ID)
	if present == nil || present.record.Revision != r.Revision {
		present = nil
	}
	for n := 0; ; n++ {
		if present == nil {
			if present, err = s.find(ctx, r.ID); err != nil {
				return task.Record{}, err
			}
		}
		params := r.Params
		if len(params) > 0 && digestOf(params) != present.paramsDigest {
			// They are other ones, or those of the record are in a body of an earlier version.
			if present, err = s.get(ctx, r.ID); err != nil {
				return task.Record{}, err
			}
			params = present.record.Params
		}
		if present.record.Revision != r.Revision {
			return task.Record{}, task.ErrConflict
		}
		next, old := r, &present.record
		next.Owner, next.Seq, next.Created, next.TTL, next.Token = old.Owner, old.Seq, old.Created, old.TTL, old.Token
		next.Params = params
		next.Revision++
		held, err := s.hold(ctx, present, &next)
		if err != nil {
			s.report(err)
			return task.Record{}, err
		}
		before := present
		c, err := s.prepare(present, next, held, func(n int) ([]task.Entry, error) {
			if n == 0 {
				return nil, nil
			}
			entries, err := s.entries(ctx, present)
			if err != nil {
				return nil, err
			}
			return entries[:n:n], nil
		})
		if err == nil {
			present, err = s.write(ctx, c, present.seq)
		}
		if err == nil {
			s.release(before, c.next)
			s.published(c.next)
			return c.next.record, nil
		}
		// The cached record may belong to a dropped task with the same id and revision.
		if !errors.Is(err, errMoved) || n == maxRereads {
			return task.Record{}, err
		}
	}
}

// indexed is the place of a task in the indexes.
type indexed struct {
	stream     string // of owner and due
	owner, due uint64 // sequences; due is 0 for a task that never expires
	held       uint64 // sequence of the entry of its holder; 0 if the task needs none
}

// addToIndexes publishes the entries of a task in the indexes of its owner, of expiries and of its
// holder.
func (s *store) addToIndexes(ctx context.Context, r *task.Record) (index indexed, err error) {
	stream, prefix, owner := s.ownerPlace(r.Owner)
	index.stream = stream
	ttl := ttlOf(r, s.earlier())
	var dueErr, heldErr error
	var group sync.WaitGroup
	if fleets.NeedsHolder(r.Status, r.Job) {
		group.Go(func() { index.held, heldErr = s.addHeld(ctx, r) })
	}
	if r.TTL != 0 {
		entry := encodeDue(r.Expires(), r.ID)
		subject := prefix + ".d." + bucketOf(r.TTL, r.Expires()).token()
		group.Go(func() {
			dueErr = s.retry(ctx, "index task", func(ctx context.Context) (err error) {
				index.due, err = s.publish(ctx, newMessage(subject, entry, ttl))
				return err
			})
		})
	}
	err = s.retry(ctx, "index task", func(ctx context.Context) (err error) {
		index.owner, err = s.publish(ctx, newMessage(prefix+".o."+owner, []byte(r.ID), ttl))
		return err
	})
	group.Wait()
	if err == nil {
		err = cmp.Or(dueErr, heldErr)
	}
	if err != nil {
		s.removeFromIndexes(ctx, index)
	}
	return index, err
}

// removeFromIndexes removes entries. If it fails, entries remain, and readers skip them. The entry
// of the holder stays: it may belong to an earlier task with this id.
func (s *store) removeFromIndexes(ctx context.Context, index indexed) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	for _, seq := range []uint64{index.owner, index.due} {
		if seq != 0 {
			s.remove(ctx, index.stream, seq)
		}
	}
}

// encodeDue returns the entry of a task in the index of expiries.
func encodeDue(expires time.Time, id string) []byte {
	return append(binary.AppendVarint(nil, expires.UnixMicro()), id...)
}

// decodeDue decodes what encodeDue has encoded.
func decodeDue(data []byte) (expires time.Time, id string, ok bool) {
	micro, n := binary.Varint(data)
	if n <= 0 {
		return time.Time{}, "", false
	}
	return time.UnixMicro(micro).UTC(), string(data[n:]), true
}

// bucket is a period in the index of expiries. It starts at index << shift seconds since 1970 and
// ends 1 << shift seconds later.
type bucket struct {
	shift int
	index int64
}

// bucketOf returns the bucket of a task. Its length is a 2048th to a 4096th of the TTL, and at
// least a second, so that the number of buckets does not depend on the TTL.
func bucketOf(ttl time.Duration, expires time.Time) bucket {
	shift := 0
	for ttl>>shift > 4096*time.Second {
		shift++
	}
	return bucket{shift, expires.Unix() >> shift}
}

func (b bucket) token() string    { return strconv.Itoa(b.shift) + "." + strconv.FormatInt(b.index, 10) }
func (b bucket) start() time.Time { return time.Unix(b.index<<b.shift, 0) }
func (b bucket) end() time.Time   { return time.Unix((b.index+1)<<b.shift, 0) }

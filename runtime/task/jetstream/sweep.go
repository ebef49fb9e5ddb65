package jetstream

import (
	"container/heap"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// orphanAge is the age at which an entry of an index without a record is removed. A younger one may
// belong to a task that is being created.
const orphanAge = time.Hour

// due is an entry of the index of expiries.
type due struct {
	stream  string
	seq     uint64
	expires time.Time
	id      string
	written time.Time
}

// dueQueue is a heap of entries, the earliest first.
type dueQueue []due

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].expires.Before(q[j].expires) }
func (q dueQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *dueQueue) Push(x any)        { *q = append(*q, x.(due)) }
func (q *dueQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// dueBucket is a bucket that has entries.
type dueBucket struct {
	bucket
	stream, subject string
	from            uint64 // sequence of the next entry to read; 0 before the first
}

// expiries iterates over the entries of the index of expiries in the order of their expiry. If all
// entries of a large bucket have expired, it reads the bucket in portions, so that a Sweep reads
// only entries that it drops. The order within such a bucket is that of creation.
type expiries struct {
	s       *store
	now     time.Time
	buckets []dueBucket // those not read to their end, in the order of their start
	queue   dueQueue
}

// expiries starts an iteration for a Sweep at the given time.
func (s *store) expiries(ctx context.Context, now time.Time) (*expiries, error) {
	e := &expiries{s: s, now: now}
	for partition := range s.partitions {
		stream, prefix := s.indexStream(partition), s.prefix(partition)+".d."
		subjects, err := s.list(ctx, stream, prefix+"*.*")
		if err != nil {
			return nil, err
		}
		for _, subject := range subjects {
			shift, index, _ := strings.Cut(strings.TrimPrefix(subject, prefix), ".")
			b := dueBucket{stream: stream, subject: subject}
			var err1, err2 error
			b.shift, err1 = strconv.Atoi(shift)
			b.index, err2 = strconv.ParseInt(index, 10, 64)
			if err1 == nil && err2 == nil && b.shift >= 0 && b.shift < 63 {
				e.buckets = append(e.buckets, b)
			}
		}
	}
	slices.SortFunc(e.buckets, func(a, b dueBucket) int { return a.start().Compare(b.start()) })
	return e, nil
}

// peek returns the earliest entry, or nil if there are none.
func (e *expiries) peek(ctx context.Context) (*due, error) {
	for len(e.buckets) > 0 {
		b := &e.buckets[0]
		expired := !b.end().After(e.now)
		if len(e.queue) > 0 && (b.start().After(e.queue[0].expires) || expired && b.from > 0) {
			break
		}
		entries, err := e.s.readNext(ctx, b.stream, b.subject, b.from, e.s.sweepPortion)
		if err != nil {
			return nil, err
		}
		for _, m := range entries {
			if expires, id, ok := decodeDue(m.Data); ok {
				heap.Push(&e.queue, due{b.stream, m.Seq, expires, id, m.Time})
			}
		}
		if len(entries) == e.s.sweepPortion {
			b.from = entries[len(entries)-1].Seq + 1
		} else {
			e.buckets = e.buckets[1:]
		}
	}
	if len(e.queue) == 0 {
		return nil, nil
	}
	return &e.queue[0], nil
}

// Sweep implements [task.Store]. Several processes may sweep at once; a task is in the result of
// one of them.
func (s *store) Sweep(ctx context.Context, now time.Time, limit int) (dropped []task.Record, next time.Time, err error) {
	defer s.observe("sweep", time.Now(), &err)
	if err := s.begin(ctx); err != nil {
		return nil, time.Time{}, err
	}
	all, err := s.expiries(ctx, now)
	if err != nil {
		return nil, time.Time{}, err
	}
	for {
		var expired []due
		for {
			first, err := all.peek(ctx)
			if err != nil {
				return dropped, time.Time{}, err
			}
			next = time.Time{}
			if first != nil {
				next = first.expires
			}
			if first == nil || next.After(now) || len(dropped)+len(expired) == limit {
				break
			}
			expired = append(expired, heap.Pop(&all.queue).(due))
		}
		if len(expired) == 0 {
			return dropped, next, nil
		}
		briefs := make([]*task.Record, len(expired))
		err := parallel(len(expired), readers, func(n int) (err error) {
			briefs[n], err = s.drop(ctx, &expired[n], now)
			return err
		})
		for _, r := range briefs {
			if r != nil {
				dropped = append(dropped, *r)
			}
		}
		if err != nil {
			return dropped, time.Time{}, err
		}
	}
}

// drop drops a task that has expired at now, and returns its brief. It returns nil if another call
// has dropped the task, or if the task is retained: then the entry stays for later calls.
func (s *store) drop(ctx context.Context, d *due, now time.Time) (*task.Record, error) {
	if !validID(d.id) {
		return nil, nil
	}
	at := s.place(d.id)
	for {
		r, err := s.load(ctx, d.id)
		if err != nil {
			return nil, err
		}
		if r == nil || !r.record.Expires().Equal(d.expires) {
			// The task was dropped without its entry, is being created, or was never created.
			if s.earlier().Sub(d.written) < orphanAge {
				return nil, s.hint(at)
			}
			return nil, s.forget(ctx, at, d)
		}
		if r.record.Retained(now) {
			return nil, nil
		}
		existed := false
		err = s.retry(ctx, "drop task", func(ctx context.Context) (err error) {
			// A record that was changed meanwhile has another sequence.
			existed, err = s.remove(ctx, at.stream, r.seq)
			return err
		})
		if err != nil {
			return nil, err
		}
		if !existed {
			continue
		}
		s.cache.drop(d.id)
		s.dropped(d.id)
		var parts []string
		for _, b := range r.blobs() {
			parts = append(parts, b.subjects(at.prefix, at.token)...)
		}
		for subjects := range slices.Chunk(parts, maxBatch) {
			s.removeParts(ctx, subjects)
		}
		brief := r.record.Brief()
		stream, _, _ := s.ownerPlace(brief.Owner)
		s.retry(ctx, "drop task", func(ctx context.Context) error {
			_, err := s.remove(ctx, stream, brief.Seq)
			return err
		})
		s.discard(at.stream, r.held)
		s.forget(ctx, at, d) // the next Sweep repeats it if it fails
		return &brief, nil
	}
}

// forget notifies the waiters of a dropped task and removes its entry from the index of expiries.
func (s *store) forget(ctx context.Context, at place, d *due) error {
	return s.retry(ctx, "drop task", func(ctx context.Context) error {
		if err := s.hint(at); err != nil {
			return err
		}
		_, err := s.remove(ctx, d.stream, d.seq)
		return err
	})
}

// hint makes the waiters of a task read its record.
func (s *store) hint(at place) error {
	m := nats.NewMsg(at.hints())
	m.Header.Set(headerStore, s.id)
	return s.nc.PublishMsg(m)
}

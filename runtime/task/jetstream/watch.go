package jetstream

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// watches holds the tasks that calls of Wait are waiting for. Each has a subscription to the hints
// of its task.
type watches struct {
	mu      sync.Mutex
	byHint  map[string]*watched // by subject of its hints
	hints   chan *nats.Msg
	status  chan nats.Status
	reading chan struct{} // limits concurrent reads
}

// watched is a task that calls of Wait are waiting for.
type watched struct {
	id      string
	waiters int
	sub     *nats.Subscription

	seen    uint64 // sequence of the latest record that waiters have received
	wanted  uint64 // sequence of the latest record that a hint has announced
	pending bool   // no read has begun since the latest hint
	reading bool   // a goroutine reads
}

// hints returns the subject on which changes of a task are announced.
func (p place) hints() string { return p.prefix + ".w." + p.token }

// hintQueue is the capacity of the queue of hints. If it overflows, all watched tasks are read.
const hintQueue = 4096

// startWatching starts the goroutine that processes hints. It ends with the lifetime of the store.
func (s *store) startWatching() error {
	w := &s.watches
	w.byHint = make(map[string]*watched)
	w.hints = make(chan *nats.Msg, hintQueue)
	w.reading = make(chan struct{}, readers)
	// A hint is lost if a leader stops between the commit of a write and its announcement.
	var elections []*nats.Subscription
	stop := func() {
		for _, sub := range elections {
			sub.Unsubscribe()
		}
	}
	for partition := range s.partitions {
		sub, err := s.nc.ChanSubscribe(electionPrefix+s.recordStream(partition), w.hints)
		if err != nil {
			stop()
			return wrap("subscribe", err)
		}
		elections = append(elections, sub)
	}
	w.status = s.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	s.running.Go(func() {
		defer s.nc.RemoveStatusListener(w.status)
		defer stop()
		s.processHints()
	})
	s.running.Go(s.recheck) // ends with the lifetime of the store
	return nil
}

const electionPrefix = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED."

func (s *store) processHints() {
	w := &s.watches
	for {
		select {
		case m := <-w.hints:
			// The client drops hints while the queue is full.
			if len(w.hints) >= hintQueue-1 || strings.HasPrefix(m.Subject, electionPrefix) {
				s.readAll(false)
				continue
			}
			if m.Header.Get(headerMessage) != "" {
				continue // of Send
			}
			seq, _ := strconv.ParseUint(m.Header.Get(headerSequence), 10, 64)
			s.changed(m.Subject, seq)
		case status, ok := <-w.status:
			if !ok || status == nats.CLOSED {
				s.hub.Close() // the connection never comes back
				return
			}
			s.readAll(true)
		case <-s.lifetime.Done():
			return
		}
	}
}

// Servers that are cut off from each other for a moment lose hints, of which the clients learn
// nothing. So the tasks that are watched or followed are read again, one after the other: each of
// them about once in recheckInterval, or all of them with one read in recheckPause if there are
// many.
const (
	recheckInterval = 20 * time.Second
	recheckPause    = 50 * time.Millisecond
)

// recheck looks for changes whose hints were lost until the lifetime of the store ends.
func (s *store) recheck() {
	for {
		ids := s.watchedIDs()
		pause := max(recheckInterval/time.Duration(max(len(ids), 1)), recheckPause)
		for _, id := range ids {
			if !s.pause(mathrand.N(2 * pause)) {
				return
			}
			s.recheckTask(id)
		}
		if len(ids) == 0 && !s.pause(pause) {
			return
		}
	}
}

// pause waits for d. It returns false if the lifetime of the store ends.
func (s *store) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.lifetime.Done():
		return false
	}
}

// watchedIDs returns the ids of the tasks that are watched or followed.
func (s *store) watchedIDs() (ids []string) {
	w := &s.watches
	w.mu.Lock()
	for _, t := range w.byHint {
		ids = append(ids, t.id)
	}
	w.mu.Unlock()
	if m := s.member.Load(); m != nil {
		ids = m.appendFollowed(ids)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// recheckTask compares the latest record of a task with what the hints have announced. A replica
// that lags behind changes nothing: the next look finds the record.
func (s *store) recheckTask(id string) {
	ctx, cancel := context.WithTimeout(s.lifetime, attemptTimeout)
	defer cancel()
	at := s.place(id)
	latest, err := s.readAnywhere(ctx, at.stream, at.record)
	if err != nil {
		return
	}
	seq := uint64(0)
	if latest != nil {
		seq = latest.Seq
	}
	s.changed(at.hints(), seq)
	if m := s.member.Load(); m != nil {
		m.found(at.hints(), seq)
	}
}

// readAll reads all watched tasks, because changes may have been missed. Restarted is set if the
// servers may have been restarted: they may have lost the latest writes, so that the records may
// have lower sequences than those that were seen or announced.
func (s *store) readAll(restarted bool) {
	w := &s.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	for hint, t := range w.byHint {
		if restarted {
			t.seen, t.wanted = 0, 0
		}
		s.changedLocked(hint, 0)
	}
}

// changed reads a task after a hint. Seq is the sequence of the change, or 0 if it is unknown.
func (s *store) changed(hint string, seq uint64) {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	s.changedLocked(hint, seq)
}

// changedLocked is changed for a caller that holds the lock.
func (s *store) changedLocked(hint string, seq uint64) {
	t := s.watches.byHint[hint]
	if t == nil || seq != 0 && seq <= t.seen || s.lifetime.Err() != nil {
		return
	}
	t.wanted, t.pending = max(t.wanted, seq), true
	if !t.reading {
		t.reading = true
		s.running.Go(func() { s.reread(hint, t) }) // ends when no hint is pending
	}
}

// reread reads a watched task until it has seen the changes that hints have announced, and wakes
// the waiters.
func (s *store) reread(hint string, t *watched) {
	w := &s.watches
	for pause := minPause; ; {
		w.mu.Lock()
		t.reading = t.pending && w.byHint[hint] == t && s.lifetime.Err() == nil
		t.pending = false
		wanted, more := t.wanted, t.reading
		w.mu.Unlock()
		if !more {
			return
		}
		w.reading <- struct{}{}
		r, err := s.get(s.lifetime, t.id)
		<-w.reading
		switch {
		case err == nil && r.seq >= wanted:
			pause = minPause
			s.publishRecord(t, r)
			continue
		case errors.Is(err, task.ErrNotFound):
			s.hub.Remove(t.id)
			continue
		}
		// The servers do not answer, or a new leader has not applied the change yet.
		select {
		case <-time.After(pause):
		case <-s.lifetime.Done():
		}
		pause = min(2*pause, maxPause)
		w.mu.Lock()
		t.pending = true
		w.mu.Unlock()
	}
}

// publishRecord wakes the waiters of a watched task.
func (s *store) publishRecord(t *watched, r *stored) {
	w := &s.watches
	w.mu.Lock()
	t.seen = max(t.seen, r.seq)
	w.mu.Unlock()
	s.hub.Publish(&r.record)
}

// published wakes the waiters of this process after a write.
func (s *store) published(r *stored) {
	w := &s.watches
	w.mu.Lock()
	t := w.byHint[s.place(r.record.ID).hints()]
	w.mu.Unlock()
	if t != nil {
		s.publishRecord(t, r)
	}
}

// dropped wakes the waiters of this process after a task was dropped.
func (s *store) dropped(id string) { s.hub.Remove(id) }

// Wait implements [task.Store].
func (s *store) Wait(ctx context.Context, id string, revision uint64) (r task.Record, err error) {
	if err := s.begin(ctx); err != nil {
		return task.Record{}, err
	}
	if !validID(id) {
		return task.Record{}, task.ErrNotFound
	}
	hint := s.place(id).hints()
	if err := s.watch(hint, id); err != nil {
		return task.Record{}, err
	}
	defer s.unwatch(hint)
	err = s.hub.Wait(ctx, id, revision, func(ctx context.Context, id string) (task.Record, error) {
		r, err := s.get(ctx, id)
		if err != nil {
			return task.Record{}, err
		}
		return r.record, nil
	}, &r)
	return r, err
}

// watch subscribes to the hints of a task. The server receives the subscription before later
// requests of this connection.
func (s *store) watch(hint, id string) error {
	w := &s.watches
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.byHint[hint]; t != nil {
		t.waiters++
		return nil
	}
	sub, err := s.nc.ChanSubscribe(hint, w.hints)
	if err != nil {
		return wrap("wait", err)
	}
	w.byHint[hint] = &watched{id: id, waiters: 1, sub: sub}
	return nil
}

// unwatch ends the subscription with the last waiter.
func (s *store) unwatch(hint string) {
	w := &s.watches
	w.mu.Lock()
	t := w.byHint[hint]
	t.waiters--
	last := t.waiters == 0
	if last {
		delete(w.byHint, hint)
	}
	w.mu.Unlock()
	if last {
		t.sub.Unsubscribe() // fails only if the connection is closed
	}
}

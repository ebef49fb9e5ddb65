package jetstreamstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// overhead is the size of an event or of the ids of requests in addition to its text, in bytes.
const overhead = 128

// entry caches the claim and the sizes of a session that this process writes, so that a write need
// not read them. It is always up to date: only the holder of a session writes to the session.
type entry struct {
	lost func() // see [Store.Join]; nil without a claim

	mu        sync.Mutex // held while the session is written
	claim     uint64     // sequence of the claim; 0 without one
	epoch     uint64     // of the claim
	size      int        // of the events and unanswered requests
	segments  []segment  // the oldest first
	open      map[string]*openStream
	refreshed time.Time // no opening, state or claim is older
	used      time.Time // of the last write; guarded by the mu of the Store
}

// segment is a sequence of messages with events. The oldest one is deleted as a whole.
type segment struct {
	first uint64 // sequence of its first message
	size  int
}

// segments is the number of segments of a full session, apart from segments with one large event.
const segments = 64

// openStream is a stream without its last event.
type openStream struct {
	begin     uint64 // sequence of the ids of its requests; 0 for none
	beginSize int
	number    uint64 // the events after the one with this number
	next      uint64 // have this sequence or a later one; 0 if unknown
}

func newEntry(now time.Time) *entry {
	return &entry{open: map[string]*openStream{}, refreshed: now, used: now}
}

// add counts a message with an event.
func (x *entry) add(seq uint64, n, limit int) {
	n += overhead
	x.size += n
	if i := len(x.segments) - 1; i >= 0 && x.segments[i].size+n <= limit/segments {
		x.segments[i].size += n
		return
	}
	x.segments = append(x.segments, segment{seq, n})
}

func (x *entry) stream(name string) *openStream {
	st := x.open[name]
	if st == nil {
		st = &openStream{}
		x.open[name] = st
	}
	return st
}

// begin counts the ids of the requests of a stream, which replace earlier ones.
func (x *entry) begin(name string, seq uint64, n int) {
	st := x.stream(name)
	x.size += n + overhead - st.beginSize
	st.begin, st.beginSize = seq, n+overhead
}

// answered forgets a stream that has ended. It returns the sequence of the ids of its requests, or
// 0 for none.
func (x *entry) answered(name string) (begin uint64) {
	if st := x.open[name]; st != nil {
		begin = st.begin
		x.size -= st.beginSize
		delete(x.open, name)
	}
	return begin
}

// entry returns the entry of a session for a write. It fails with [streamable.ErrNotHeld] if the
// Store has joined and this process does not hold the session.
func (s *store) entry(key string) (*entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessions[key]
	switch {
	case x != nil:
		x.used = s.now()
	case s.locator != nil:
		return nil, streamable.ErrNotHeld
	default:
		x = newEntry(s.now())
		s.addEntry(key, x)
	}
	return x, nil
}

// addEntry adds an entry, and drops the entries whose events have expired. mu must be held.
func (s *store) addEntry(key string, x *entry) {
	s.sessions[key] = x
	if len(s.sessions) < s.dropAt {
		return
	}
	for key, x := range s.sessions {
		if x.lost == nil && s.now().Sub(x.used) > 2*s.o.MaxAge {
			delete(s.sessions, key)
		}
	}
	s.dropAt = max(2*len(s.sessions), 1024)
}

// loaded replaces the entry of a session, except for its claim.
func (s *store) loaded(key string, x *entry) {
	s.mu.Lock()
	old := s.sessions[key]
	if old == nil && s.locator == nil {
		s.addEntry(key, x)
	}
	s.mu.Unlock()
	if old == nil {
		return
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	old.size, old.segments, old.open, old.refreshed = x.size, x.segments, x.open, x.refreshed
}

// position returns the sequence from which the events of a stream after a number are to be read.
func (s *store) position(key, stream string, after uint64) uint64 {
	s.mu.Lock()
	x := s.sessions[key]
	s.mu.Unlock()
	if x == nil {
		return 1
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if st := x.open[stream]; st != nil && st.next > 0 && st.number <= after {
		return st.next
	}
	if len(x.segments) > 0 {
		return x.segments[0].first
	}
	return 1
}

// setPosition remembers that the event of a stream with a number has a sequence.
func (s *store) setPosition(key, stream string, number, seq uint64) {
	s.mu.Lock()
	x := s.sessions[key]
	s.mu.Unlock()
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if st := x.open[stream]; st != nil {
		st.number, st.next = number, seq+1
	}
}

// maxAttempt is the maximum time of one attempt.
const maxAttempt = 2 * time.Second

// attempt returns a context for one of several attempts: the answer to a request is lost if the
// leader dies.
func (s *store) attempt(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, min(s.o.Timeout/3, maxAttempt))
}

// retryDelay is the time between two attempts.
const retryDelay = 20 * time.Millisecond

// sleep waits before the next attempt. It returns false if ctx has ended.
func sleep(ctx context.Context) bool {
	timer := time.NewTimer(retryDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isTransient reports whether another attempt may succeed: the servers elect a leader, or the
// connection was lost.
func isTransient(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrDisconnected)
}

// isConflict reports whether JetStream has rejected a write because of the sequence that it
// expects.
func isConflict(err error) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	// In a replicated stream, the second code also stands for a write that is still pending.
	return ok && (e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// Error codes of JetStream.
const (
	errCodeUnavailable = 10008 // the servers have not elected a leader
	errCodeStoreFailed = 10077 // the stream has reached a limit
)

// hasCode reports whether err is an error of JetStream with a code.
func hasCode(err error, code jetstream.ErrorCode) bool {
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && e.ErrorCode == code
}

func isFull(err error) bool { return hasCode(err, errCodeStoreFailed) }

// maxRoomAttempts is how often a write deletes old events to make room.
const maxRoomAttempts = 8

// put writes a message of a session, and returns its sequence. replace deletes the earlier messages
// with its subject. It fails with [streamable.ErrNotHeld] if the claim of x is not the newest one.
// The mu of x must be held.
func (s *store) put(ctx context.Context, key string, x *entry, subject string, data []byte, replace bool) (seq uint64, err error) {
	m := nats.NewMsg(subject)
	m.Data = data
	if replace {
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	}
	var opts []jetstream.PublishOpt
	if x.claim > 0 {
		opts = append(opts, jetstream.WithExpectLastSequenceForSubject(x.claim, s.subject(key, kindClaim)))
	}
	for full := 0; ; {
		attempt, cancel := s.attempt(ctx)
		ack, err := s.js.PublishMsg(attempt, m, opts...)
		cancel()
		switch {
		case err == nil:
			return ack.Sequence, nil
		case isConflict(err):
			// Another write that expects the same sequence may be pending.
			last, err := s.newest(ctx, s.subject(key, kindClaim))
			if errors.Is(err, errNoMessage) || err == nil && last.Seq != x.claim {
				s.drop(key, x)
				return 0, streamable.ErrNotHeld
			}
			if err != nil {
				return 0, err
			}
		case isFull(err) && full < maxRoomAttempts:
			full++
			if err := s.makeRoom(ctx); err != nil {
				return 0, err
			}
			continue
		case !isTransient(err):
			return 0, fmt.Errorf("jetstreamstore: write: %w", err)
		}
		if !sleep(ctx) {
			return 0, fmt.Errorf("jetstreamstore: write: %w", context.Cause(ctx))
		}
	}
}

// drop removes the entry of a session that another process holds, and calls lost of the session.
func (s *store) drop(key string, x *entry) {
	s.mu.Lock()
	held := s.sessions[key] == x
	if held {
		delete(s.sessions, key)
	}
	s.mu.Unlock()
	if held && x.lost != nil {
		go x.lost() // ends by itself
	}
}

// makeRoom deletes the oldest events of all sessions, those in the oldest 64th of all messages.
func (s *store) makeRoom(ctx context.Context) error {
	events := s.subject("*", kindEvent) + ".>"
	oldest, err := s.get(ctx, s.o.Name, map[string]any{"seq": 1, "next_by_subj": events})
	if err != nil {
		return fmt.Errorf("jetstreamstore: stream is full: %w", err)
	}
	newest, err := s.newest(ctx, s.o.Name+".>")
	if err != nil {
		return err
	}
	upTo := oldest.Seq + (newest.Seq-oldest.Seq)/64 + 1
	if err := s.stream.Purge(ctx, jetstream.WithPurgeSubject(events), jetstream.WithPurgeSequence(upTo)); err != nil {
		return fmt.Errorf("jetstreamstore: old events not deleted: %w", err)
	}
	s.o.Logger.Warn("oldest events deleted", "reason", "stream is full", "stream", s.o.Name)
	return nil
}

// limit deletes the oldest events of a session that is too large. The mu of x must be held.
func (s *store) limit(ctx context.Context, key string, x *entry) {
	if x.size <= s.o.MaxSessionBytes {
		return
	}
	// Deleting a little more than necessary saves requests.
	n, size := 0, x.size
	for ; n < len(x.segments)-1 && size > s.o.MaxSessionBytes/16*15; n++ {
		size -= x.segments[n].size
	}
	if n == 0 {
		return
	}
	err := s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.subject(key, kindEvent)+".>"), jetstream.WithPurgeSequence(x.segments[n].first))
	if err != nil { // the next write tries again
		s.o.Logger.Warn("oldest events of a session not deleted", "error", err)
		return
	}
	x.size, x.segments = size, append([]segment(nil), x.segments[n:]...)
}

// update calls f to change a session.
func (s *store) update(ctx context.Context, session string, f func(ctx context.Context, key string, x *entry) error) error {
	ctx, cancel := s.limitTime(ctx)
	defer cancel()
	key := token(session)
	x, err := s.entry(key)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return f(ctx, key, x)
}

// PersistOpening stores how a session was opened.
func (s *store) PersistOpening(ctx context.Context, session string, o streamable.Opening) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("jetstreamstore: %w", err)
	}
	return s.update(ctx, session, func(ctx context.Context, key string, x *entry) error {
		_, err := s.put(ctx, key, x, s.subject(key, kindOpening), text, true)
		return err
	})
}

// PersistState stores the state of a session's owner.
func (s *store) PersistState(ctx context.Context, session string, state []byte) error {
	return s.update(ctx, session, func(ctx context.Context, key string, x *entry) error {
		_, err := s.put(ctx, key, x, s.subject(key, kindState), state, true)
		return err
	})
}

// Begin stores that a stream was opened for requests.
func (s *store) Begin(ctx context.Context, session, stream string, requests []byte) error {
	if len(requests)+overhead > s.o.MaxSessionBytes {
		return fmt.Errorf("jetstreamstore: ids of %d bytes: %w", len(requests), transport.ErrTooLong)
	}
	return s.update(ctx, session, func(ctx context.Context, key string, x *entry) error {
		seq, err := s.put(ctx, key, x, s.streamSubject(key, kindBegin, stream), requests, true)
		if err != nil {
			return err
		}
		x.begin(stream, seq, len(requests))
		s.limit(ctx, key, x)
		return nil
	})
}

// Append adds an event to the end of a stream.
func (s *store) Append(ctx context.Context, session, stream string, e streamable.Event) error {
	if len(e.Text)+partHeader+overhead > s.o.MaxSessionBytes {
		return fmt.Errorf("jetstreamstore: event of %d bytes: %w", len(e.Text), transport.ErrTooLong)
	}
	return s.update(ctx, session, func(ctx context.Context, key string, x *entry) error {
		subject := s.streamSubject(key, kindEvent, stream)
		most := s.maxPart()
		p := part{Event: e}
		for rest := e.Text; ; p.index++ {
			n := min(len(rest), most)
			p.Text, rest = rest[:n:n], rest[n:]
			p.more = len(rest) > 0
			data := p.encode()
			seq, err := s.put(ctx, key, x, subject, data, false)
			if err != nil {
				return err
			}
			x.add(seq, len(data), s.o.MaxSessionBytes)
			if p.more {
				continue
			}
			if st := x.stream(stream); st.next == 0 && e.Number == 1 {
				st.next = seq
			}
			break
		}
		if e.Last {
			s.deleteBegin(x.answered(stream))
		}
		s.limit(ctx, key, x)
		return nil
	})
}

// maxPart returns the maximum number of bytes of an event in one message. The maximum payload of
// the server includes the header of the message.
func (s *store) maxPart() int { return max(int(s.js.Conn().MaxPayload())-2048, 1024) }

// deleteBegin deletes the ids of the requests of a stream that has ended. It does not wait for
// that: if the request is lost, the ids are deleted with the session.
func (s *store) deleteBegin(seq uint64) {
	if seq > 0 {
		s.js.Conn().Publish(s.api+"STREAM.MSG.DELETE."+s.o.Name, fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq))
	}
}

// Touch records that sessions are in use. It writes their older messages again, so that JetStream
// does not delete them.
func (s *store) Touch(ctx context.Context, sessions []string) error {
	for _, session := range sessions {
		if err := s.touch(ctx, token(session)); err != nil && !errors.Is(err, streamable.ErrNotHeld) {
			return err // the others would wait for JetStream, too
		}
	}
	return nil
}

func (s *store) touch(ctx context.Context, key string) error {
	ctx, cancel := s.limitTime(ctx)
	defer cancel()
	s.mu.Lock()
	x := s.sessions[key]
	if x != nil {
		x.used = s.now()
	} else if s.locator == nil {
		x = newEntry(time.Time{}) // not known whether it is old
	}
	s.mu.Unlock()
	if x == nil { // not held
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	now := s.now()
	if now.Sub(x.refreshed) < s.o.MaxAge/4 {
		return nil
	}
	for _, kind := range []string{kindOpening, kindState} {
		m, err := s.newest(ctx, s.subject(key, kind))
		if errors.Is(err, errNoMessage) || err == nil && now.Sub(m.Time) < s.o.MaxAge/4 {
			continue
		}
		if err == nil {
			_, err = s.put(ctx, key, x, m.Subject, m.Data, true)
		}
		if err != nil {
			return err
		}
	}
	if x.claim > 0 {
		if err := s.renewClaim(ctx, key, x); err != nil {
			return err
		}
	}
	x.refreshed = now
	return nil
}

// Forget deletes a session with all of its streams.
func (s *store) Forget(ctx context.Context, session string) error {
	err := s.forget(ctx, session)
	if errors.Is(err, streamable.ErrNotHeld) {
		ctx, cancel := s.limitTime(ctx)
		defer cancel()
		if _, err := s.newest(ctx, s.subject(token(session), ">")); errors.Is(err, errNoMessage) {
			return nil
		}
	}
	return err
}

func (s *store) forget(ctx context.Context, session string) error {
	return s.update(ctx, session, func(ctx context.Context, key string, x *entry) error {
		if x.claim > 0 { // another process may hold the session
			if err := s.endClaim(ctx, key, x); err != nil {
				return err
			}
		}
		if err := s.stream.Purge(ctx, jetstream.WithPurgeSubject(s.subject(key, ">"))); err != nil {
			return fmt.Errorf("jetstreamstore: session not deleted: %w", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.sessions[key] == x {
			delete(s.sessions, key)
		}
		return nil
	})
}

package jetstreamstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// ErrNotJoined is returned while the lease of a [Locator] has ended, and after Close.
var ErrNotJoined = errors.New("jetstreamstore: process has no lease")

// LocatorOptions describes a process to the other processes of its fleet.
type LocatorOptions struct {
	// URL is the address at which the other processes reach the endpoint of this one, such as
	// "http://10.0.0.7:8080/mcp". It is required. The path may differ from that of clients.
	URL string

	// Lease is the time after which a process counts as dead if it has not renewed its lease, in
	// whole seconds; default 20, at least a second. The process renews its lease after
	// each third of that time.
	Lease time.Duration
}

// Locator is a [streamable.Locator] that stores claims in the stream of a [Store]. Create a Locator
// with [Store.Join], and end it with Close.
//
// The process has a message that JetStream deletes when the lease ends. It is in a stream of its own,
// so that a process can renew its lease when sessions fill the other one. If the process cannot renew
// its lease in time, it loses all sessions, and then joins the fleet again as a new process.
type Locator struct {
	streamable.Locator
	process *locator
}

// Close ends the lease: other processes can claim the sessions at once. Shut down the Handler
// first. Close may be called repeatedly.
func (l *Locator) Close() error {
	l.process.cancel()
	<-l.process.done
	return nil
}

// locator implements [streamable.Locator].
type locator struct {
	s         *store
	o         LocatorOptions
	processes jetstream.Stream

	cancel context.CancelFunc
	done   chan struct{} // closed when the process has left

	mu      sync.Mutex
	process string // id of this process; "" without a lease
	writes  uint64 // number of claims that this process has tried to write
	// seen are the latest messages of other processes, by id.
	seen map[string]seenLease
}

// seenLease is the message of another process.
type seenLease struct {
	seq   uint64
	since time.Time // when it was read first
}

// maxSeen limits the number of processes in locator.seen.
const maxSeen = 1000

var _ streamable.Locator = (*locator)(nil)

// Join makes this process a member of the fleet: it can hold sessions. From then on, the Store
// writes only to the sessions that this process holds, and fails with [streamable.ErrNotHeld] for
// others. A Store can join once.
func (s *Store) Join(ctx context.Context, o LocatorOptions) (*Locator, error) {
	l, err := s.streams.join(ctx, o)
	if err != nil {
		return nil, err
	}
	return &Locator{Locator: l, process: l}, nil
}

func (s *store) join(ctx context.Context, o LocatorOptions) (*locator, error) {
	if u, err := url.Parse(o.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("jetstreamstore: join: URL %q is not an absolute HTTP URL", o.URL)
	}
	if o.Lease <= 0 {
		o.Lease = 20 * time.Second
	}
	o.Lease = max(o.Lease.Truncate(time.Second), time.Second)
	l := &locator{s: s, o: o, done: make(chan struct{}), seen: map[string]seenLease{}}
	s.mu.Lock()
	joined := s.locator != nil
	if !joined {
		s.locator = l
	}
	s.mu.Unlock()
	if joined {
		return nil, errors.New("jetstreamstore: store has already joined")
	}
	lease, err := l.start(ctx)
	if err != nil {
		s.mu.Lock()
		s.locator = nil
		s.mu.Unlock()
		return nil, err
	}
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go l.keep(ctx, lease) // ends with Close
	return l, nil
}

// lease is the message that marks a process as alive.
type lease struct {
	process string
	seq     uint64
	renewed time.Time // before the message was sent
}

// processRecord is the content of the message of a lease.
type processRecord struct {
	URL   string `json:"url"`
	Lease int64  `json:"leaseMs,omitempty"` // absent in the messages of earlier versions
}

// processStream returns the name of the stream of processes.
func (s *store) processStream() string { return s.o.Name + "-processes" }

// processSubject returns the subject of the message of a process.
func (s *store) processSubject(process string) string { return s.processStream() + "." + process }

// start opens the stream of processes, and joins.
func (l *locator) start(ctx context.Context) (_ *lease, err error) {
	l.processes, err = l.s.openStream(ctx, jetstream.StreamConfig{
		Name:              l.s.processStream(),
		Description:       "Processes that serve MCP Streamable HTTP",
		Subjects:          []string{l.s.processSubject("*")},
		Replicas:          l.s.o.Replicas,
		MaxMsgsPerSubject: 1,
		AllowMsgTTL:       true,
	})
	if err != nil {
		return nil, err
	}
	return l.join(ctx)
}

// join writes the message of a new process.
func (l *locator) join(ctx context.Context) (*lease, error) {
	ctx, cancel := l.s.limitTime(ctx)
	defer cancel()
	a := &lease{process: rand.Text()}
	for {
		attempt, cancel := l.s.attempt(ctx)
		err := l.renew(attempt, a)
		cancel()
		switch {
		case err == nil:
			l.mu.Lock()
			l.process = a.process
			l.mu.Unlock()
			return a, nil
		case isConflict(err): // the answer to an earlier attempt was lost
			a.process = rand.Text()
		case !isTransient(err):
			return nil, fmt.Errorf("jetstreamstore: join: %w", err)
		}
		if !sleep(ctx) {
			return nil, fmt.Errorf("jetstreamstore: join: %w", context.Cause(ctx))
		}
	}
}

// renew writes the message of the process again. It fails if the message has expired.
func (l *locator) renew(ctx context.Context, a *lease) error {
	text, err := json.Marshal(processRecord{l.o.URL, l.o.Lease.Milliseconds()})
	if err != nil {
		return err
	}
	m := nats.NewMsg(l.s.processSubject(a.process))
	m.Data = text
	now := time.Now()
	ack, err := l.s.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(a.seq), jetstream.WithMsgTTL(l.o.Lease))
	if err != nil {
		return err
	}
	a.seq, a.renewed = ack.Sequence, now
	return nil
}

// keep renews the lease until ctx ends, and then ends it. If the lease ends before, it drops all
// sessions and joins again.
func (l *locator) keep(ctx context.Context, a *lease) {
	defer close(l.done)
	ticker := time.NewTicker(l.o.Lease / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			l.leave(a)
			return
		}
		if a == nil {
			next, err := l.join(ctx)
			if err != nil {
				l.s.o.Logger.Warn("not joined again", "error", err)
				continue
			}
			a = next
			l.s.o.Logger.Info("joined again", "process", a.process)
			continue
		}
		if err := l.extend(ctx, a); err != nil && ctx.Err() == nil {
			l.s.o.Logger.Warn("lease lost", "process", a.process, "error", err)
			a = nil
			l.lose()
		}
	}
}

// extend renews the lease. It tries again until the lease ends: the answer to an attempt is lost if
// the leader of the stream dies.
func (l *locator) extend(ctx context.Context, a *lease) error {
	ctx, cancel := context.WithDeadline(ctx, a.renewed.Add(l.o.Lease))
	defer cancel()
	for began := time.Now(); ; {
		attempt, cancel := context.WithTimeout(ctx, min(l.s.o.Timeout, l.o.Lease)/3)
		err := l.renew(attempt, a)
		if isConflict(err) {
			err = l.confirm(attempt, a, began)
		}
		cancel()
		if err == nil || errors.Is(err, ErrNotJoined) || !sleep(ctx) {
			return err
		}
	}
}

// confirm reads the message of the process after a conflict. It fails with [ErrNotJoined] if there
// is no message. A message with another sequence is that of an earlier attempt, after the time
// began.
func (l *locator) confirm(ctx context.Context, a *lease, began time.Time) error {
	m, err := l.s.get(ctx, l.s.processStream(), map[string]any{"last_by_subj": l.s.processSubject(a.process)})
	switch {
	case errors.Is(err, errNoMessage):
		return ErrNotJoined
	case err != nil:
		return err
	case m.Seq == a.seq: // the write is still pending
		return nats.ErrTimeout
	}
	a.seq, a.renewed = m.Seq, began
	return nil
}

// leave deletes the message of the process.
func (l *locator) leave(a *lease) {
	if a == nil {
		return
	}
	ctx, cancel := l.s.limitTime(context.Background())
	defer cancel()
	l.lose()
	if err := l.processes.Purge(ctx, jetstream.WithPurgeSubject(l.s.processSubject(a.process))); err != nil {
		l.s.o.Logger.Warn("lease not ended", "process", a.process, "error", err)
	}
}

// lose drops all sessions.
func (l *locator) lose() {
	l.mu.Lock()
	l.process = ""
	l.mu.Unlock()
	l.s.mu.Lock()
	held := l.s.sessions
	l.s.sessions = map[string]*entry{}
	l.s.mu.Unlock()
	for _, x := range held {
		if x.lost != nil {
			go x.lost() // ends by itself
		}
	}
}

// claim is the content of a message of kindClaim: the process that holds a session.
type claim struct {
	Process string `json:"process,omitempty"` // "" if the session was released
	Epoch   uint64 `json:"epoch"`             // number of claims of the session so far
	Write   uint64 `json:"write,omitempty"`   // number of the write among those of the process
	Deleted bool   `json:"deleted,omitempty"` // the session is being deleted
}

// newClaim returns the next claim of a session by this process.
func (l *locator) newClaim(epoch uint64) (claim, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process == "" {
		return claim{}, ErrNotJoined
	}
	l.writes++
	return claim{Process: l.process, Epoch: epoch, Write: l.writes}, nil
}

// Open implements [streamable.Locator].
func (l *locator) Open(ctx context.Context, session string, lost func()) error {
	ctx, cancel := l.s.limitTime(ctx)
	defer cancel()
	key := token(session)
	c, err := l.newClaim(1)
	if err != nil {
		return err
	}
	seq, err := l.s.writeClaim(ctx, key, c, 0)
	if err != nil {
		return err
	}
	return l.hold(key, c, seq, lost)
}

// Claim implements [streamable.Locator].
func (l *locator) Claim(ctx context.Context, session string, lost func()) (holder streamable.Holder, err error) {
	ctx, cancel := l.s.limitTime(ctx)
	defer cancel()
	key := token(session)
	for {
		var current claim
		m, err := l.s.newest(ctx, l.s.subject(key, kindClaim))
		switch {
		case errors.Is(err, errNoMessage): // opened without a Locator, or unknown
			m = &message{}
			if _, err := l.s.newest(ctx, l.s.subject(key, kindOpening)); errors.Is(err, errNoMessage) {
				return streamable.Holder{}, streamable.ErrUnknown
			} else if err != nil {
				return streamable.Holder{}, err
			}
		case err != nil:
			return streamable.Holder{}, err
		default:
			if err := json.Unmarshal(m.Data, &current); err != nil {
				return streamable.Holder{}, fmt.Errorf("jetstreamstore: claim of a session: %w", err)
			}
		}
		if current.Deleted {
			return streamable.Holder{}, streamable.ErrUnknown
		}
		c, err := l.newClaim(current.Epoch + 1)
		if err != nil {
			return streamable.Holder{}, err
		}
		if current.Process != "" && current.Process != c.Process {
			url, err := l.address(ctx, current.Process)
			switch {
			case err == nil:
				return streamable.Holder{URL: url, Process: current.Process}, nil
			case !errors.Is(err, errNoMessage):
				return streamable.Holder{}, err
			}
		}
		seq, err := l.s.writeClaim(ctx, key, c, m.Seq)
		switch {
		case err == nil:
			return streamable.Holder{}, l.hold(key, c, seq, lost)
		case !errors.Is(err, streamable.ErrNotHeld): // another process was faster
			return streamable.Holder{}, err
		}
	}
}

// Alive implements [streamable.Locator].
func (l *locator) Alive(ctx context.Context, holder streamable.Holder) (bool, error) {
	ctx, cancel := l.s.limitTime(ctx)
	defer cancel()
	_, err := l.address(ctx, holder.Process)
	if errors.Is(err, errNoMessage) {
		return false, nil
	}
	return err == nil, err
}

// address returns the URL of a living process. It fails with errNoMessage if the process is dead. A
// process whose message stays the same for two of its leases has ended, whatever the clocks of the
// servers say.
func (l *locator) address(ctx context.Context, process string) (string, error) {
	subject := l.s.processSubject(process)
	m, err := l.s.get(ctx, l.s.processStream(), map[string]any{"last_by_subj": subject})
	if err != nil {
		return "", err
	}
	var record processRecord
	if err := json.Unmarshal(m.Data, &record); err != nil || record.URL == "" {
		return "", fmt.Errorf("jetstreamstore: record of process %q: %w", process, err)
	}
	lease := time.Duration(record.Lease) * time.Millisecond
	if since := l.see(process, m.Seq); lease == 0 || time.Since(since) <= 2*lease {
		return record.URL, nil
	}
	// A message that the process writes meanwhile is not removed.
	if err := l.processes.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(m.Seq+1)); err != nil {
		return "", fmt.Errorf("jetstreamstore: end lease of process %q: %w", process, err)
	}
	return "", errNoMessage
}

// see returns when the latest message of a process was read first.
func (l *locator) see(process string, seq uint64) (since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, ok := l.seen[process]
	if ok && last.seq == seq {
		return last.since
	}
	if !ok && len(l.seen) == maxSeen {
		clear(l.seen) // most of them have ended
	}
	now := time.Now()
	l.seen[process] = seenLease{seq, now}
	return now
}

// hold remembers the claim of a session that this process has written.
func (l *locator) hold(key string, c claim, seq uint64, lost func()) error {
	x := newEntry(l.s.now())
	x.claim, x.epoch, x.lost = seq, c.Epoch, lost
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process != c.Process { // the lease has ended meanwhile
		return ErrNotJoined
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.addEntry(key, x)
	return nil
}

// Release implements [streamable.Locator].
func (l *locator) Release(ctx context.Context, session string) error {
	ctx, cancel := l.s.limitTime(ctx)
	defer cancel()
	key := token(session)
	l.s.mu.Lock()
	x := l.s.sessions[key]
	delete(l.s.sessions, key)
	l.s.mu.Unlock()
	if x == nil {
		return nil
	}
	x.mu.Lock() // waits for a pending write
	defer x.mu.Unlock()
	_, err := l.s.writeClaim(ctx, key, claim{Epoch: x.epoch}, x.claim)
	if errors.Is(err, streamable.ErrNotHeld) {
		return nil
	}
	return err
}

// writeClaim writes a claim if the newest one has the sequence expected. Otherwise it fails with
// [streamable.ErrNotHeld].
func (s *store) writeClaim(ctx context.Context, key string, c claim, expected uint64) (seq uint64, err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return 0, fmt.Errorf("jetstreamstore: %w", err)
	}
	m := nats.NewMsg(s.subject(key, kindClaim))
	m.Data = text
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	for {
		attempt, cancel := s.attempt(ctx)
		ack, err := s.js.PublishMsg(attempt, m, jetstream.WithExpectLastSequencePerSubject(expected))
		cancel()
		switch {
		case err == nil:
			return ack.Sequence, nil
		case isConflict(err):
			last, err := s.newest(ctx, m.Subject)
			switch {
			case errors.Is(err, errNoMessage):
				last = &message{}
			case err != nil:
				return 0, err
			case string(last.Data) == string(text): // the answer to an earlier attempt was lost
				return last.Seq, nil
			}
			if last.Seq != expected {
				return 0, streamable.ErrNotHeld
			}
		case isFull(err):
			if err := s.makeRoom(ctx); err != nil {
				return 0, err
			}
		case !isTransient(err):
			return 0, fmt.Errorf("jetstreamstore: claim: %w", err)
		}
		if !sleep(ctx) {
			return 0, fmt.Errorf("jetstreamstore: claim: %w", context.Cause(ctx))
		}
	}
}

// renewClaim writes the claim of a session again, so that it does not expire. The mu of x must be
// held.
func (s *store) renewClaim(ctx context.Context, key string, x *entry) error {
	s.mu.Lock()
	l := s.locator
	s.mu.Unlock()
	c, err := l.newClaim(x.epoch)
	if err != nil {
		return err
	}
	seq, err := s.writeClaim(ctx, key, c, x.claim)
	switch {
	case errors.Is(err, streamable.ErrNotHeld):
		s.drop(key, x)
		return nil
	case err == nil:
		x.claim = seq
	}
	return err
}

// endClaim records that a session is being deleted. The mu of x must be held.
func (s *store) endClaim(ctx context.Context, key string, x *entry) error {
	_, err := s.writeClaim(ctx, key, claim{Epoch: x.epoch, Deleted: true}, x.claim)
	if errors.Is(err, streamable.ErrNotHeld) {
		s.drop(key, x)
	}
	return err
}

package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// What waits for a slow reader of a Tracker: how many reports, and how many bytes of messages in them. A further
// report takes the place of the newest.
const (
	maxUpdates     = 64
	maxUpdateBytes = 64 << 10
)

// Tracker receives the progress of one operation of the peer. Reports that do not increase are
// dropped. It is open until Close, or the end of the session. The session refers to it weakly: a
// Tracker that is no longer reachable needs no Close.
type Tracker struct {
	s       *Session
	forget  runtime.Cleanup // removes it from the session once it is unreachable
	token   mcp.ProgressToken
	task    string        // whose reports it receives, whatever their token; "" for those of its token
	touched chan struct{} // holds one: there was progress

	mu     sync.Mutex
	queue  []Progress
	bytes  int // of the messages in queue
	last   float64
	any    bool
	closed bool
	signal chan struct{} // closed when there is something new; nil while nobody waits
}

// NewTracker returns a Tracker with a token of its own; see [Track]. No other operation has that token, in whatever
// session: a task may go on in another session with the token it was created with.
func (s *Session) NewTracker() *Tracker {
	t := s.newTracker(codec.StringScalar(rand.Text()), "")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(t)
	return t
}

// NewTrackerFor returns a Tracker for a token that is known from before, such as that of a task which was created
// through an earlier session. It fails with [ErrTokenInUse].
func (s *Session) NewTrackerFor(token mcp.ProgressToken) (*Tracker, error) {
	t := s.newTracker(token, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.trackers[token].get() != nil {
		return nil, ErrTokenInUse
	}
	s.add(t)
	return t, nil
}

// NewTrackerOfTask returns a Tracker for a task of the peer whose token is not known, as that was created by somebody
// else. It receives what says that it belongs to the task (MCP tasks, "Associating Task-Related Messages"). It has no
// token, and [Track] does not take it.
func (s *Session) NewTrackerOfTask(id string) *Tracker {
	t := s.newTracker(mcp.ProgressToken{}, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(t)
	return t
}

func (s *Session) newTracker(token mcp.ProgressToken, task string) *Tracker {
	return &Tracker{s: s, token: token, task: task, touched: make(chan struct{}, 1)}
}

// tracked is a session's reference to a Tracker. It is weak, unless the Tracker belongs to a call
// and ends with it.
type tracked struct {
	call *Tracker
	weak weak.Pointer[Tracker]
}

// get returns the Tracker, or nil if it has become unreachable.
func (t tracked) get() *Tracker {
	if t.call != nil {
		return t.call
	}
	return t.weak.Value()
}

// add registers a Tracker for its events from now on. If the session has ended, add closes it. mu
// must be held.
func (s *Session) add(t *Tracker) {
	if s.stopped {
		t.closed = true
		return
	}
	ref := weak.Make(t)
	if t.task != "" {
		s.ofTasks[t.task] = append(s.ofTasks[t.task], ref)
	} else {
		s.trackers[t.token] = tracked{weak: ref}
	}
	token, task := t.token, t.task
	t.forget = runtime.AddCleanup(t, func(ref weak.Pointer[Tracker]) { s.remove(token, task, ref) }, ref)
}

// remove undoes add.
func (s *Session) remove(token mcp.ProgressToken, task string, ref weak.Pointer[Tracker]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if task == "" {
		if s.trackers[token].weak == ref {
			delete(s.trackers, token)
		}
		return
	}
	rest := slices.DeleteFunc(s.ofTasks[task], func(x weak.Pointer[Tracker]) bool { return x == ref })
	if s.ofTasks[task] = rest; len(rest) == 0 {
		delete(s.ofTasks, task)
	}
}

// trackCall returns the Tracker of one call.
func (s *Session) trackCall() *Tracker {
	t := s.newTracker(codec.StringScalar(rand.Text()), "")
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.closed = s.stopped; !t.closed {
		s.trackers[t.token] = tracked{call: t}
	}
	return t
}

// Token returns the progress token.
func (t *Tracker) Token() mcp.ProgressToken { return t.token }

// Close ends the tracking. Reports that came before can still be read.
func (t *Tracker) Close() {
	t.s.mu.Lock()
	own := t.task == "" && t.s.trackers[t.token].call == t
	if own {
		delete(t.s.trackers, t.token)
	}
	t.s.mu.Unlock()
	if !own {
		t.forget.Stop()
		t.s.remove(t.token, t.task, weak.Make(t))
	}
	t.mu.Lock()
	t.closed = true
	t.wake()
	t.mu.Unlock()
}

// Updates goes over the reports as they come, until the Tracker is closed or ctx ends. A reader that is slow misses
// some, but not the last one. Several readers share the reports.
func (t *Tracker) Updates(ctx context.Context) iter.Seq[Progress] {
	return func(yield func(Progress) bool) {
		for ctx.Err() == nil {
			t.mu.Lock()
			if len(t.queue) > 0 {
				p := t.queue[0]
				t.queue = t.queue[1:]
				t.bytes -= len(p.Message)
				t.mu.Unlock()
				if !yield(p) {
					return
				}
				continue
			}
			if t.closed {
				t.mu.Unlock()
				return
			}
			if t.signal == nil {
				t.signal = make(chan struct{})
			}
			signal := t.signal
			t.mu.Unlock()
			select {
			case <-signal:
			case <-ctx.Done():
				return
			}
		}
	}
}

// wake tells those who wait that there is something new. It is called with mu held.
func (t *Tracker) wake() {
	if t.signal != nil {
		close(t.signal)
		t.signal = nil
	}
}

// discard closes the Tracker and drops what was not read.
func (t *Tracker) discard() {
	t.Close()
	t.mu.Lock()
	t.queue = nil
	t.mu.Unlock()
}

// put takes a report.
func (t *Tracker) put(p Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.any && p.Value <= t.last {
		return
	}
	t.last, t.any = p.Value, true
	if n := len(t.queue); n == maxUpdates || n > 0 && t.bytes+len(p.Message) > maxUpdateBytes {
		t.bytes -= len(t.queue[n-1].Message)
		t.queue = t.queue[:n-1]
	}
	t.queue = append(t.queue, p)
	t.bytes += len(p.Message)
	t.wake()
	select {
	case t.touched <- struct{}{}:
	default:
	}
}

// progressed brings a progress notification to who asked for it. Others are dropped.
func (s *Session) progressed(raw json.RawMessage) {
	var params mcp.ProgressNotificationParams
	if err := codec.Unmarshal(raw, &params); err != nil {
		s.warn("notification refused", "method", "notifications/progress", "error", err)
		return
	}
	wanted := make([]*Tracker, 0, 2)
	s.mu.Lock()
	if t := s.trackers[params.ProgressToken].get(); t != nil {
		wanted = append(wanted, t)
	}
	if params.Meta != nil && params.Meta.RelatedTask != nil {
		for _, ref := range s.ofTasks[params.Meta.RelatedTask.TaskID] {
			if t := ref.Value(); t != nil {
				wanted = append(wanted, t)
			}
		}
	}
	s.mu.Unlock()
	if len(wanted) == 0 {
		if s.cfg.Logger.Enabled(s.life, slog.LevelDebug) {
			s.cfg.Logger.Debug("progress dropped: unknown token", "token", boundary.Text(params.ProgressToken.String(), maxID))
		}
		return
	}
	p := Progress{Value: params.Progress, Total: params.Total}
	if params.Message != nil {
		p.Message = strings.Clone(*params.Message) // which may share a block with the rest of the notification
	}
	for _, t := range wanted {
		t.put(p)
	}
}

// tracking is the progress of one call.
type tracking struct {
	tracker *Tracker      // nil for none
	own     bool          // it ends with the call
	done    chan struct{} // closed when the callback is not called any more; nil without one
}

// track starts to receive the progress of a call that asks for it.
func (s *Session) track(ctx context.Context, call *Call) (tracking, error) {
	t := tracking{tracker: call.opts.tracker}
	f := call.opts.onProgress
	if t.tracker == nil && f == nil && call.opts.max == 0 {
		return t, nil
	}
	if t.tracker == nil {
		t.tracker, t.own = s.trackCall(), true
	}
	if t.tracker.task != "" {
		return t, errors.New("session: the tracker of a task has no token for another request")
	}
	call.SetMeta("progressToken", t.tracker.token)
	if f != nil {
		t.done = make(chan struct{})
		updates := t.tracker.Updates(ctx)
		if !t.own {
			updates = t.tracker.Updates(s.life)
		}
		started := s.spawn(func() { // ends when the tracker is closed or ctx ends, and f has returned
			defer close(t.done)
			for p := range updates {
				s.panicked("OnProgress", boundary.Run(func() error { f(p); return nil }))
			}
		})
		if !started {
			return t, s.closed()
		}
	}
	return t, nil
}

// wait waits until the callback was called for all progress before the answer, or ctx ends.
func (t tracking) wait(ctx context.Context) {
	if t.own {
		t.tracker.Close()
		t.idle(ctx)
	}
}

// drop ends the tracking when the call returns. The callback is not called any more.
func (t tracking) drop(ctx context.Context) {
	if t.own {
		t.tracker.discard()
		t.idle(ctx)
	}
}

// idle waits until the callback has returned, or ctx ends.
func (t tracking) idle(ctx context.Context) {
	if t.done != nil {
		select {
		case <-t.done:
		case <-ctx.Done():
		}
	}
}

package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"sync"

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
	owner   *trackers
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

// NewTracker returns a Tracker with a token of its own; see [Track]. The token is unique among all
// sessions: a task may go on in another session with the token it was created with.
func (s *Session) NewTracker() *Tracker {
	t := newTracker(codec.StringScalar(rand.Text()), "")
	s.trackers.add(t)
	return t
}

// NewTrackerFor returns a Tracker for a token that is known from before, such as that of a task which
// was created through an earlier session. It fails with [ErrTokenInUse].
func (s *Session) NewTrackerFor(token mcp.ProgressToken) (*Tracker, error) {
	t := newTracker(token, "")
	if !s.trackers.add(t) {
		return nil, ErrTokenInUse
	}
	return t, nil
}

// NewTrackerOfTask returns a Tracker for a task of the peer whose token is not known, as another
// requestor has created it. It receives the progress that names the task (MCP tasks, "Associating
// Task-Related Messages"). It has no token, and [Track] does not take it.
func (s *Session) NewTrackerOfTask(id string) *Tracker {
	t := newTracker(mcp.ProgressToken{}, id)
	s.trackers.add(t)
	return t
}

func newTracker(token mcp.ProgressToken, task string) *Tracker {
	return &Tracker{token: token, task: task, touched: make(chan struct{}, 1)}
}

// Token returns the progress token.
func (t *Tracker) Token() mcp.ProgressToken { return t.token }

// Close ends the tracking. Reports that came before can still be read.
func (t *Tracker) Close() {
	t.owner.drop(t)
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

// progressed passes a progress notification to its trackers. If there are none, it is dropped.
func (s *Session) progressed(raw json.RawMessage) {
	var params mcp.ProgressNotificationParams
	if err := codec.Unmarshal(raw, &params); err != nil {
		s.warn("notification refused", "method", mcp.MethodNotificationsProgress, "error", err)
		return
	}
	task := ""
	if params.Meta != nil && params.Meta.RelatedTask != nil {
		task = params.Meta.RelatedTask.TaskID
	}
	wanted := s.trackers.find(params.ProgressToken, task)
	if len(wanted) == 0 {
		if s.cfg.Logger.Enabled(s.life.ctx, slog.LevelDebug) {
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
		t.tracker, t.own = newTracker(codec.StringScalar(rand.Text()), ""), true
		s.trackers.addCall(t.tracker)
	}
	if t.tracker.task != "" {
		return t, errors.New("session: the tracker of a task has no token for another request")
	}
	call.SetMeta("progressToken", t.tracker.token)
	if f != nil {
		t.done = make(chan struct{})
		updates := t.tracker.Updates(ctx)
		if !t.own {
			updates = t.tracker.Updates(s.life.ctx)
		}
		started := s.life.spawn(func() { // ends when the tracker is closed or ctx ends, and f has returned
			defer close(t.done)
			for p := range updates {
				s.panicked("OnProgress", boundary.Run(func() error { f(p); return nil }))
			}
		})
		if !started {
			return t, s.life.err()
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

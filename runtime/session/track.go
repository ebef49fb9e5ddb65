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

// Limits of the queue of a Tracker: reports, and bytes of their messages. A further report replaces
// the newest one.
const (
	maxUpdates     = 64
	maxUpdateBytes = 64 << 10
)

// tracker receives the progress of one operation of the peer. It drops reports that do not
// increase. It is open until Close, or the end of the session. The session refers to it weakly: a
// Tracker that is no longer reachable needs no Close.
type tracker struct {
	owner  *trackers
	forget runtime.Cleanup // removes it from the session once it is unreachable
	token  mcp.ProgressToken
	// The task whose reports the Tracker receives, with any token. If it is empty, the Tracker
	// receives the reports with its own token.
	task    string
	touched chan struct{} // buffers one; signals progress to Session.await

	mu     sync.Mutex
	queue  []Progress
	bytes  int // of the messages in queue
	last   float64
	any    bool
	closed bool
	signal chan struct{} // closed when there is a new report; nil unless Updates waits
}

// NewTracker returns a Tracker with a new token. The token is unique among all
// sessions, because a task keeps its token in later sessions.
func (s sessionInternals) NewTracker() *tracker {
	t := newTracker(codec.StringScalar(rand.Text()), "")
	s.trackers.add(t)
	return t
}

// NewTrackerFor returns a Tracker for a known token, such as that of a task that was created
// through an earlier session. It fails with an error if another Tracker has it.
func (s sessionInternals) NewTrackerFor(token mcp.ProgressToken) (*tracker, error) {
	t := newTracker(token, "")
	if !s.trackers.add(t) {
		return nil, errTokenInUse
	}
	return t, nil
}

// NewTrackerOfTask returns a Tracker for a task of the peer whose token is unknown, because another
// requestor has created the task. It receives the progress that names the task (MCP tasks,
// "Associating Task-Related Messages"). It has no token, and a call with the option Track
// fails.
func (s sessionInternals) NewTrackerOfTask(id string) *tracker {
	t := newTracker(mcp.ProgressToken{}, id)
	s.trackers.add(t)
	return t
}

func newTracker(token mcp.ProgressToken, task string) *tracker {
	return &tracker{token: token, task: task, touched: make(chan struct{}, 1)}
}

// Token returns the progress token.
func (t *tracker) Token() mcp.ProgressToken { return t.token }

// Close ends the Tracker. Queued reports can still be read.
func (t *tracker) Close() {
	t.owner.drop(t)
	t.mu.Lock()
	t.closed = true
	t.wake()
	t.mu.Unlock()
}

// Updates iterates over the reports until the Tracker is closed or ctx ends. A slow reader misses
// reports, but not the last one. Several readers share the reports.
func (t *tracker) Updates(ctx context.Context) iter.Seq[Progress] {
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

// wake wakes the readers. mu must be held.
func (t *tracker) wake() {
	if t.signal != nil {
		close(t.signal)
		t.signal = nil
	}
}

// discard closes the Tracker and drops queued reports.
func (t *tracker) discard() {
	t.Close()
	t.mu.Lock()
	t.queue = nil
	t.mu.Unlock()
}

// put queues a report.
func (t *tracker) put(p Progress) {
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

// progressed passes a progress notification to its trackers, or drops it if there are none.
func (s *Session) progressed(raw json.RawMessage) {
	var params mcp.ProgressNotificationParams
	if err := codec.Unmarshal(raw, &params); err != nil {
		s.warn("notification rejected", "method", mcp.MethodNotificationsProgress, "error", err)
		return
	}
	task := ""
	if params.Meta != nil && params.Meta.RelatedTask != nil {
		task = params.Meta.RelatedTask.TaskID
	}
	wanted := s.trackers.find(params.ProgressToken, task)
	if len(wanted) == 0 {
		if s.cfg.Logger.Enabled(s.life.ctx, slog.LevelDebug) {
			s.cfg.Logger.Debug("progress dropped", "token", boundary.Text(params.ProgressToken.String(), maxID))
		}
		return
	}
	p := Progress{Value: params.Progress, Total: params.Total}
	if params.Message != nil {
		// The message may share memory with the rest of the notification.
		p.Message = strings.Clone(*params.Message)
	}
	for _, t := range wanted {
		t.put(p)
	}
}

// tracking is the progress of one call.
type tracking struct {
	tracker *tracker // nil for none
	own     bool     // the tracker ends with the call
	// Closed when the callback has returned for the last time; nil without a callback.
	done chan struct{}
}

// track starts receiving progress if the options of the call need it.
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
		return t, errors.New("session: Track: tracker of task has no token")
	}
	call.SetMeta("progressToken", t.tracker.token)
	if f != nil {
		t.done = make(chan struct{})
		updates := t.tracker.Updates(ctx)
		if !t.own {
			updates = t.tracker.Updates(s.life.ctx)
		}
		started := s.life.spawn(func() { // ends when the tracker is closed or ctx ends
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

// wait waits until the callback has received all progress that arrived before the answer, or ctx
// ends.
func (t tracking) wait(ctx context.Context) {
	if t.own {
		t.tracker.Close()
		t.idle(ctx)
	}
}

// drop ends the tracking when the call returns. The callback is not called afterwards.
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

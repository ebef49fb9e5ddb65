package calls

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/internal/replay"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// handover is the Backend of a plain call with Options.Rounds. The call may become a task while its
// handler is running. Until then, input requests end the round, and results are collected for the
// next round. In the task, input requests wait for the response, and results go to the journal.
type handover struct {
	rounds *replay.Rounds
	became chan struct{} // closed when the call has become a task

	mu      sync.RWMutex // held for writing while the call becomes a task
	run     *task.Run    // nil for a plain call
	steps   int          // number of running steps that began before the call became a task
	release func()       // ends the hold of run for these steps; nil if there are none
}

func newHandover(earlier []replay.Entry) *handover {
	return &handover{rounds: replay.NewRounds(earlier), became: make(chan struct{})}
}

// BeforeTask turns a plain call with [Options].Rounds into a task, unless an input request of the
// call has no response yet. The result of the call then asks for the input. It is the function for
// [receiver.Pending.BeforeTask].
func (r *Run) BeforeTask(promote receiver.Promote) {
	b := r.rounds
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	recorded, ok := b.rounds.Recorded()
	if !ok {
		return
	}
	entries := make([]task.Entry, 0, 1+len(recorded))
	entries = append(entries, callEntry(r.id))
	for i := range recorded {
		entries = append(entries, journalEntry(&recorded[i]))
	}
	if b.run = promote(entries); b.run == nil {
		return
	}
	r.recorder.KeepStepping()
	if b.steps > 0 {
		b.release = b.run.Hold()
	}
	close(b.became)
}

// task returns the task that the call has become, or nil.
func (b *handover) task() *task.Run {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.run
}

// hold prevents the parking of the task until release is called, even if the call becomes a task
// later. See [task.Run.Hold].
func (b *handover) hold() (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.run != nil {
		return b.run.Hold()
	}
	b.steps++
	return b.endStep
}

func (b *handover) endStep() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.steps--; b.steps == 0 && b.release != nil {
		b.release()
		b.release = nil
	}
}

// Input implements [replay.Backend].
func (b *handover) Input(ctx context.Context, asked *replay.Asked, value any) (json.RawMessage, error) {
	b.mu.RLock()
	if b.run == nil {
		defer b.mu.RUnlock()
		return b.rounds.Input(ctx, asked, value)
	}
	b.mu.RUnlock()
	return inTask{b.run}.Input(ctx, asked, value)
}

// Record implements [replay.Backend].
func (b *handover) Record(ctx context.Context, e replay.Entry) error {
	b.mu.RLock()
	if b.run == nil {
		defer b.mu.RUnlock()
		return b.rounds.Record(ctx, e)
	}
	b.mu.RUnlock()
	return inTask{b.run}.Record(ctx, e)
}

// ended returns the results and open input requests for the next round; see [replay.Rounds.Ended].
// It returns nil if the call has become a task.
func (b *handover) ended() (entries []replay.Entry, open []replay.Open) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.run != nil {
		return nil, nil
	}
	return b.rounds.Ended()
}

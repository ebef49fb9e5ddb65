package calls

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/replay"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// inTask is the Backend of a task. Input requests wait for the response. Results go to the journal
// of the task, if it is durable.
type inTask struct{ run *task.Run }

// Input implements [replay.Backend]. A task that waits long is parked: its handler returns, and
// runs again later.
func (b inTask) Input(ctx context.Context, asked *replay.Asked, value any) (json.RawMessage, error) {
	var params codec.Encoder
	switch request := value.(type) {
	case *mcp.ElicitRequest:
		params = request.Params
	case *mcp.CreateMessageRequest:
		params = &request.Params
	case nil:
		if asked.Params != nil {
			params = session.Raw(asked.Params)
		}
	}
	if asked.Occurrence == 0 { // transient
		return b.run.Call(ctx, asked.Method, params)
	}
	answer, err := b.run.Ask(ctx, journalKey(asked.ID), asked.Occurrence, asked.Method, params)
	if errors.Is(err, task.ErrParked) {
		err = replay.ErrSuspended
	}
	return answer, err
}

// Record implements [replay.Backend].
func (b inTask) Record(ctx context.Context, e replay.Entry) error {
	if e.Kind == replay.KindInput { // the record of the task has the response already
		return nil
	}
	return b.run.Record(ctx, journalEntry(&e))
}

// recorder returns a Recorder with the journal of the task, and the id of the call.
func (b inTask) recorder(ctx context.Context) (r *replay.Recorder, call string, err error) {
	stored, requests, err := b.run.Journal(ctx)
	if err != nil {
		return nil, "", err
	}
	call = b.run.ID()
	entries := make([]replay.Entry, 0, len(stored)+len(requests))
	for i := range stored {
		e := &stored[i]
		if e.Kind == kindCall {
			call = e.Key
			continue
		}
		id := replay.ID{Kind: replay.Kind(e.Kind), Key: e.Key, Occurrence: e.Occurrence}
		entries = append(entries, replay.Entry{ID: recordedID(id), Label: "an input request", Result: e.Result, Failed: e.Failed})
	}
	for i := range requests {
		q := &requests[i]
		if q.Key == "" || q.Open() {
			continue
		}
		id := recordedID(replay.ID{Kind: replay.KindInput, Key: q.Key, Occurrence: q.Occurrence})
		e := replay.Entry{ID: id, Label: q.Method, Result: q.Result}
		if q.Error != nil {
			e.Result, e.Failed = q.Error, true
		}
		entries = append(entries, e)
	}
	r = replay.New(b, entries, nil)
	r.KeepStepping()
	return r, call, nil
}

// CheckVersion returns an error if a task was begun by a version of a tool that neither is the given
// one nor is accepted by it. Durable may be nil.
func CheckVersion(durable *task.Durable, tool, version string, accepted []string) error {
	if durable == nil || durable.Version == version || slices.Contains(accepted, durable.Version) {
		return nil
	}
	return fmt.Errorf("version %q of tool %q has begun this task, and version %q does not continue it", durable.Version, tool, version)
}

// kindCall is the kind of the entry that holds the id of a call that began as a plain one. The
// idempotency keys of its steps are derived from that id.
const kindCall = 255

func callEntry(id string) task.Entry {
	return task.Entry{Kind: kindCall, Key: id, Occurrence: 1, Result: json.RawMessage(`null`)}
}

// journalEntry returns the form of an entry in the journal of a task.
func journalEntry(e *replay.Entry) task.Entry {
	return task.Entry{Kind: byte(e.Kind), Key: journalKey(e.ID), Occurrence: e.Occurrence, Result: e.Result, Failed: e.Failed}
}

// journalKey returns the form of a key in the journal of a task, which is text.
func journalKey(id replay.ID) string {
	if id.Kind == replay.KindInput {
		return base64.RawURLEncoding.EncodeToString([]byte(id.Key))
	}
	return id.Key
}

// recordedID undoes journalKey.
func recordedID(id replay.ID) replay.ID {
	if id.Kind == replay.KindInput {
		if key, err := base64.RawURLEncoding.DecodeString(id.Key); err == nil {
			id.Key = string(key)
		}
	}
	return id
}

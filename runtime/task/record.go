package task

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
)

// Record is all that is known of a task, as a [Store] keeps it: who owns it, what was asked,
// how far it is and what came of it. It is enough to go on with the task in another process.
//
// A Record is a value. What its slices point at never changes once the record was handed to
// a store or came from one; whoever wants other contents puts another slice in their place.
type Record struct {
	ID    string // chosen by the Manager, from crypto/rand
	Owner string // the principal it belongs to

	// Seq orders the tasks of an owner by their creation. Revision counts the writes of this
	// record, from 1 on. The store sets both.
	Seq, Revision uint64

	Status        mcp.TaskStatus
	StatusMessage string // "" if there is none

	// Created and Updated are in UTC, and kept to the microsecond. Updated never stands still
	// when the status moves.
	Created, Updated time.Time
	TTL              time.Duration // how long after Created it is kept; 0 is for ever
	PollInterval     time.Duration // 0 leaves it to the requestor

	// Method, Params and Token are the request that the task was created for: its params
	// without the task member, and its progress token or the zero one. Params are dropped when
	// the task is over.
	Method string
	Params json.RawMessage
	Token  mcp.ProgressToken

	Restartable bool   // the work may be run again from its start after a restart
	Runner      string // the name of the Jobs that do the work elsewhere, "" for work in this process
	Job         string // what those call it, "" before it is known

	Bytes int64 // about how many bytes the record takes, as limits count it; the Manager sets it

	InputRequests []InputRequest // what the work asks its requestor, while the task is not over

	// Result and Error are the outcome of a task that is over: one of them is there. Result is
	// what the plain request would have given, with the related task in its _meta, and Error
	// a JSON-RPC error object.
	Result, Error json.RawMessage
}

// InputRequest is a request from the work to its requestor, and the answer once it is there.
type InputRequest struct {
	Number uint64 // tells it from the others of the task
	Method string
	Params json.RawMessage // with the related task in _meta; nil once Error is set

	Result, Error json.RawMessage // the answer; neither is there as long as it is open
}

// Open reports whether the question waits for its answer.
func (q *InputRequest) Open() bool { return q.Result == nil && q.Error == nil }

// Expires returns when the task may be dropped, or the zero time if never.
func (r *Record) Expires() time.Time {
	if r.TTL == 0 {
		return time.Time{}
	}
	return r.Created.Add(r.TTL)
}

// expired reports whether the task's time has passed.
func (r *Record) expired(now time.Time) bool {
	return r.TTL != 0 && !now.Before(r.Created.Add(r.TTL))
}

// over reports whether the task has an outcome.
func (r *Record) terminal() bool { return Terminal(r.Status) }

// open counts the questions without answer.
func (r *Record) openInputRequests() (n int) {
	for i := range r.InputRequests {
		if r.InputRequests[i].Open() {
			n++
		}
	}
	return n
}

// size is about how many bytes it takes to store the record.
func (r *Record) size() int64 {
	n := 128 + tokenSize(r.Token) + len(r.ID) + len(r.Owner) + len(r.StatusMessage) + len(r.Method) + len(r.Params) +
		len(r.Runner) + len(r.Job) + len(r.Result) + len(r.Error)
	for i := range r.InputRequests {
		q := &r.InputRequests[i]
		n += 16 + len(q.Method) + len(q.Params) + len(q.Result) + len(q.Error)
	}
	return int64(n)
}

func tokenSize(t mcp.ProgressToken) int {
	if text, ok := t.Text(); ok {
		return len(text)
	}
	return len(t.String()) // the text of a number, of any length
}

// Brief returns the record without its payloads: params, questions and outcome. Lists are
// made of such.
func (r Record) Brief() Record {
	r.Params, r.InputRequests, r.Result, r.Error = nil, nil, nil, nil
	return r
}

// Task returns the record as the protocol shows it.
func (r *Record) Task() mcp.Task {
	t := mcp.Task{TaskID: r.ID, Status: r.Status, CreatedAt: formatTime(r.Created)}
	if t.LastUpdatedAt = t.CreatedAt; !r.Updated.Equal(r.Created) {
		t.LastUpdatedAt = formatTime(r.Updated)
	}
	if r.StatusMessage != "" {
		t.StatusMessage = new(strings.ToValidUTF8(r.StatusMessage, "\uFFFD")) // which older stores may not have
	}
	times := &[2]int64{r.TTL.Milliseconds(), r.PollInterval.Milliseconds()}
	if r.TTL != 0 {
		t.TTL = &times[0]
	}
	if r.PollInterval != 0 {
		t.PollInterval = &times[1]
	}
	return t
}

// date is a time in ISO 8601, to the microsecond.
func formatTime(t time.Time) string {
	const layout = "2006-01-02T15:04:05.000000Z"
	text := t.UTC().AppendFormat(make([]byte, 0, len(layout)), time.RFC3339) // much faster than other layouts
	text[len(text)-1] = '.'
	micro := t.Nanosecond() / 1000
	for unit := 100_000; unit > 0; unit /= 10 {
		text = append(text, '0'+byte(micro/unit%10))
	}
	return string(append(text, 'Z'))
}

package task

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Record is the state of a task in a [Store]: its principal, its request, its status and its
// outcome. A Record is enough to recover the task in another process.
//
// A Record is a value. The contents of its slices never change once it was passed to a store or
// returned by one. To change contents, assign another slice.
type Record struct {
	ID    string // random, from crypto/rand; set by the Manager
	Owner string // principal of the task

	// Seq orders the tasks of an owner by creation. Revision counts the writes of this record, from
	// 1. The store sets both.
	Seq, Revision uint64

	Status        mcp.TaskStatus
	StatusMessage string // may be empty

	// Created and Updated are in UTC, with microsecond precision. Updated advances with every
	// change.
	Created, Updated time.Time
	TTL              time.Duration // lifetime from Created on; 0 means unlimited
	PollInterval     time.Duration // suggested to the requestor; 0 suggests none

	// Method, Params and Token are from the request that created the task: its method, its params
	// without the task member, and its progress token or the zero token. They never
	// change, except that Params are dropped when the task becomes terminal.
	Method string
	Params json.RawMessage
	Token  mcp.ProgressToken

	Name string // name of the tool that is called, for operators; may be empty

	// Protocol is the protocol revision of the request. It is "" in records of versions of this
	// package that did not store it; their requests were made in sessions.
	Protocol mcp.Revision

	Restartable bool // the work may be re-run from its start after a restart
	// Reruns is the number of times that the process of restartable work has died while the work
	// ran, since its journal has grown; see [Recovery.MaxReruns].
	Reruns int
	// Phase says what restartable work does in the process that holds its task. If that process
	// dies, only work that runs can be the cause. Only a Manager reads it; 0 is work that runs.
	Phase uint8
	// Lost are the IDs of the latest members of a fleet that Reruns counts. A member that was found
	// dead but lives removes itself.
	Lost []string
	// Progress is the greatest progress value that was sent before this write, or nil. It is set
	// only for tasks that can be recovered. Sending progress alone does not write the record.
	Progress *float64

	// Labels are those that the member of a fleet needs to hold the task; see [Request].Labels.
	Labels []string

	Runner string // see Request.Runner; "" for work in this process
	Job    string // name of the job in that system; "" until the job is started

	// Claim says which member of a fleet holds the task. It is zero if the store is not shared.
	Claim Claim
	// Trace is the trace context of the request that created the task, such as a traceparent of W3C
	// Trace Context. It may be empty.
	Trace string

	Bytes int64 // approximate size in bytes, which counts towards Limits.Bytes; set by the Manager

	// InputRequests holds the pending and the answered input requests. It is nil once the task is
	// terminal.
	InputRequests []InputRequest

	// Durable is the state that restartable work continues from. It is nil for other work. What it
	// points to never changes: to change it, assign another one.
	Durable *Durable

	// Result and Error are the outcome of a terminal task; one of them is set. Result is the result
	// that the plain request would have had. It has the related task in its _meta, except for tasks
	// of the Tasks extension. Error is a JSON-RPC error object.
	Result, Error json.RawMessage
}

// running reports whether the death of the process would be one during the work.
func (r *Record) running() bool {
	return r.Durable != nil && !r.parked() && (r.Phase == taskrules.PhaseRunning || r.Phase == taskrules.PhaseTrial)
}

// Begun reports whether the work has ever begun. Until then, any version of the tool can run it.
func (r *Record) Begun() bool { return r.Phase != taskrules.PhaseNew }

// Durable is the state that restartable work continues from when it runs again. Together with the
// answered input requests, it is the journal of the work.
type Durable struct {
	// Version is that of the work; see [Request.Version]. Before the work has begun, it is the
	// version in the process that has created the task.
	Version string
	// Recorded is the number of entries in the journal. It is 0 once the task is terminal.
	// RecordedBytes is the size of the entries, which Record.Bytes includes.
	Recorded      int
	RecordedBytes int64
	// Entries are the last of the recorded entries, which [Store.Create] and [Store.Update] add to
	// the journal. Records that a store returns have none; [Store.Journal] returns all entries.
	Entries []Entry
	// LastInput is the number of the latest input request.
	LastInput uint64
	// Wake is when parked work runs again without an answer or a signal. It is zero if the work is
	// not parked, or waits for these alone.
	Wake time.Time
	// Awaits are the names of the signals that parked work waits for, in ascending order. Such a
	// signal resets Parked.
	Awaits []string
	// Signals are those that the work has not taken, in the order in which they were stored. It is
	// nil once the task is terminal or its work undoes what it has done.
	Signals []Signal
	// Undos is the number of entries of the kind 5. It is 0 once the task is terminal.
	Undos int
	// Parked is set while the work is parked; see [Recovery.ParkAfter]. An answer to an input request
	// resets it.
	Parked bool
	// Undo says why the work undoes what it has done, and UndoSince since when. Until it has done
	// so, the Status is not terminal. If the task was cancelled or has expired, requestors see it
	// as such.
	Undo      uint8
	UndoSince time.Time
}

// Entry is a result that the work of a task has recorded. It is known by its branch, its kind, its
// key and, among equal keys, its occurrence. Its contents belong to the work.
type Entry struct {
	Kind       byte // chosen by the work, but for 1, 5 and 9; 1 is the answer to an input request
	Key        string
	Occurrence int // from 1
	Result     json.RawMessage
	Failed     bool // Result is a failure

	// Branch names the branch of the work that has recorded the entry; "" is the work itself.
	// Position is the place of the operation among those of the branch, from 1. It is 0 in entries
	// of versions of this package that stored neither.
	Branch   string
	Position int
}

// InputRequest is a request from the work to its requestor, with the answer once there is one.
type InputRequest struct {
	Number uint64 // unique within the task
	Method string
	// Key and Occurrence identify the input request in later runs of the work; see [Run.Ask]. Key
	// is "" for an input request that later runs make anew.
	Key        string
	Occurrence int
	Params     json.RawMessage // with the related task in _meta as Record.Result; nil once Error is set

	// Branch and Position are those of the work that makes the input request, as in an [Entry].
	Branch   string
	Position int
	// Deadline is when the work gives the input request up; zero for never. Later runs of the work
	// have the same deadline.
	Deadline time.Time

	// Result and Error are the answer; both are nil while the input request is open. Error is a
	// JSON-RPC error object or, if the work has given the input request up, "timed out"
	// or "given up".
	Result, Error json.RawMessage
}

// Open reports whether the input request has no answer yet.
func (q *InputRequest) Open() bool { return q.Result == nil && q.Error == nil }

// Expires returns when the task expires, or the zero time if it never does.
func (r *Record) Expires() time.Time {
	if r.TTL == 0 {
		return time.Time{}
	}
	return r.Created.Add(r.TTL)
}

// expired reports whether the task has expired at now.
func (r *Record) expired(now time.Time) bool {
	return r.TTL != 0 && !now.Before(r.Created.Add(r.TTL))
}

// terminal reports whether the status of the task is terminal.
func (r *Record) terminal() bool { return Terminal(r.Status) }

// openInputRequests returns the number of input requests without an answer.
func (r *Record) openInputRequests() (n int) {
	for i := range r.InputRequests {
		if r.InputRequests[i].Open() {
			n++
		}
	}
	return n
}

// Overheads are the bytes that count in addition to the texts. They cover the structs and the
// indexes of a store in memory. The overhead in the pages of a bolt file is about the same.
const (
	recordOverhead       = 512
	inputRequestOverhead = 112
	entryOverhead        = 96
	labelOverhead        = 16
)

// size estimates the number of bytes that the record takes in a store.
func (r *Record) size() int64 {
	n := recordOverhead + tokenSize(r.Token) + len(r.ID) + len(r.Owner) + len(r.StatusMessage) + len(r.Method) + len(r.Params) + len(r.Name) +
		len(r.Runner) + len(r.Job) + len(r.Claim.Member) + len(r.Trace) + len(r.Result) + len(r.Error)
	for _, list := range [][]string{r.Labels, r.Lost} {
		for _, text := range list {
			n += labelOverhead + len(text)
		}
	}
	for i := range r.InputRequests {
		n += int(r.InputRequests[i].size())
	}
	return int64(n) + r.Durable.size()
}

// size is Record.size for q.
func (q *InputRequest) size() int64 {
	return inputRequestOverhead + int64(len(q.Method)+len(q.Branch)+len(q.Key)+len(q.Params)+len(q.Result)+len(q.Error))
}

// size is Record.size for d, which may be nil.
func (d *Durable) size() int64 {
	if d == nil {
		return 0
	}
	n := int64(len(d.Version)) + d.RecordedBytes
	for i := range d.Signals {
		n += d.Signals[i].size()
	}
	for _, name := range d.Awaits {
		n += labelOverhead + int64(len(name))
	}
	return n
}

// with returns a copy of d whose journal has further entries.
func (d *Durable) with(entries []Entry) *Durable {
	more := *d
	more.Entries = entries
	more.Recorded += len(entries)
	for i := range entries {
		if entries[i].Kind == taskrules.KindUndo {
			more.Undos++
		}
		more.RecordedBytes += entryOverhead + int64(len(entries[i].Branch)+len(entries[i].Key)+len(entries[i].Result))
	}
	return &more
}

// tokenSize returns the length of a token. The text of a number may have any length.
func tokenSize(t mcp.ProgressToken) int {
	if text, ok := t.Text(); ok {
		return len(text)
	}
	return len(t.String())
}

// Brief returns the record without its payloads: params, input requests, entries, signals and
// outcome.
// [Store.List], [Store.Sweep] and [Store.Scan] return briefs.
func (r Record) Brief() Record {
	r.Params, r.InputRequests, r.Result, r.Error = nil, nil, nil, nil
	if r.Durable != nil && (r.Durable.Entries != nil || r.Durable.Signals != nil) {
		d := *r.Durable
		d.Entries, d.Signals = nil, nil
		r.Durable = &d
	}
	return r
}

// Task returns the task as the protocol represents it.
func (r *Record) Task() mcp.Task {
	t := mcp.Task{TaskID: r.ID, Status: r.shown(), CreatedAt: formatTime(r.Created)}
	if t.LastUpdatedAt = t.CreatedAt; !r.Updated.Equal(r.Created) {
		t.LastUpdatedAt = formatTime(r.Updated)
	}
	if r.StatusMessage != "" {
		// A record of an older version may hold invalid UTF-8.
		t.StatusMessage = new(strings.ToValidUTF8(r.StatusMessage, "\uFFFD"))
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

// formatTime formats t as ISO 8601 with microseconds.
func formatTime(t time.Time) string {
	const layout = "2006-01-02T15:04:05.000000Z"
	// RFC3339 is much faster to format than other layouts.
	text := t.UTC().AppendFormat(make([]byte, 0, len(layout)), time.RFC3339)
	text[len(text)-1] = '.'
	micro := t.Nanosecond() / 1000
	for unit := 100_000; unit > 0; unit /= 10 {
		text = append(text, '0'+byte(micro/unit%10))
	}
	return string(append(text, 'Z'))
}

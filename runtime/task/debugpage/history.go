package debugpage

import (
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// DefaultEvents is how many events a [History] keeps that does not say.
const DefaultEvents = 16384

// longest is how many bytes of a text a History keeps: refused calls bring what their sender likes.
const longest = 256

// History keeps the latest events of a [task.Manager], except those that tell of reading, which
// would drive out the others. Refusals have a room of their own, for the same reason. Its methods
// may be called by many goroutines.
type History struct {
	mu              sync.Mutex
	events, refused ring
}

// entry is an event and when it was told.
type entry struct {
	task.Event
	At     time.Time
	Reason string // the text of Err, which is dropped
}

// NewHistory returns a History of at most n events, and a sixteenth of that for refusals; if n is
// not positive, of [DefaultEvents].
func NewHistory(n int) *History {
	if n <= 0 {
		n = DefaultEvents
	}
	return &History{events: ring{limit: n}, refused: ring{limit: max(1, n/16)}}
}

// Add takes an event; it is made to be the Audit of a [task.Config]. The time is that of the call.
func (h *History) Add(e task.Event) {
	if e.Kind == task.EventRead {
		return
	}
	kept := entry{Event: e, At: time.Now()}
	if e.Err != nil {
		kept.Reason, kept.Err = clip(e.Err.Error()), nil
	}
	kept.Principal, kept.Task, kept.Method = clip(e.Principal), clip(e.Task), clip(e.Method)
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Kind == task.EventRefused {
		h.refused.add(kept)
	} else {
		h.events.add(kept)
	}
}

// of returns the events of a task, refusals aside, the oldest first.
func (h *History) of(id string) []entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []entry
	for i := range h.events.len() {
		if e := h.events.at(i); e.Task == id {
			list = append(list, e)
		}
	}
	return list
}

// refusals returns the latest refusals, the last first and at most n of them.
func (h *History) refusals(n int) []entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []entry
	for i := h.refused.len() - 1; i >= 0 && len(list) < n; i-- {
		list = append(list, h.refused.at(i))
	}
	return list
}

// ring holds the last limit entries that were added.
type ring struct {
	limit int
	list  []entry
	first int // where the oldest is, once the list is full
}

func (r *ring) add(e entry) {
	if len(r.list) < r.limit {
		r.list = append(r.list, e)
		return
	}
	r.list[r.first] = e
	r.first = (r.first + 1) % r.limit
}

func (r *ring) len() int { return len(r.list) }

// at returns the entry that is the ith oldest.
func (r *ring) at(i int) entry { return r.list[(r.first+i)%len(r.list)] }

// clip returns a text of at most longest bytes that shares no memory with s, which may be part of a
// message.
func clip(s string) string { return strings.Clone(cut(s, longest)) }

// cut returns s, or its first n bytes less a rune that would be cut, and an ellipsis.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

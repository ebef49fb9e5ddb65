package debugpage

import (
	"encoding/json"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// defaultEvents is the default size of a [History], in events.
const defaultEvents = 16384

// maxText is the largest size of a text in a History, in bytes. Peers choose the texts of refused
// calls.
const maxText = 256

// History holds the latest events of a [task.Manager], except [task.EventRead]. Refused calls have
// a separate buffer, so that they do not displace other events. Its methods may be called
// concurrently.
type History struct {
	mu              sync.Mutex
	events, refused ring
}

// entry is an event and its time.
type entry struct {
	task.Event // without Err
	At         time.Time
	Reason     string // the text of Err
}

// NewHistory returns a History of at most n events and n/16 refused calls. If n is not positive,
// it has 16,384 events.
func NewHistory(n int) *History {
	if n <= 0 {
		n = defaultEvents
	}
	return &History{events: ring{limit: n}, refused: ring{limit: max(1, n/16)}}
}

// Add adds an event with the current time. It is meant for Audit in the Hooks of a [task.Options].
func (h *History) Add(e task.Event) {
	if e.Kind == task.EventRead {
		return
	}
	stored := entry{Event: e, At: time.Now()}
	if e.Err != nil {
		stored.Reason, stored.Err = clip(e.Err.Error()), nil
	}
	stored.Principal, stored.Task, stored.Method = clip(e.Principal), clip(e.Task), clip(e.Method)
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Kind == task.EventRefused {
		h.refused.add(stored)
	} else {
		h.events.add(stored)
	}
}

// maxEvents is the maximum number of events in a response.
const maxEvents = 1000

// wireEvent is the JSON of an event in a response.
type wireEvent struct {
	At   time.Time      `json:"at"`
	Kind string         `json:"kind"`
	From mcp.TaskStatus `json:"from,omitempty"`
	To   mcp.TaskStatus `json:"to,omitempty"`
}

// Respond returns the latest events of a task for the page of another member of a fleet. It is meant
// for Queried in the Hooks of a [task.Options].
func (h *History) Respond(request []byte) (response []byte) {
	events := h.taskEvents(string(request))
	events = events[max(len(events)-maxEvents, 0):]
	list := make([]wireEvent, len(events))
	for i, e := range events {
		list[i] = wireEvent{e.At, e.Kind, e.From, e.To}
	}
	response, err := json.Marshal(list)
	if err != nil {
		return nil // a time out of range
	}
	return response
}

// decodeEvents decodes a response. It returns false if that is not one of Respond.
func decodeEvents(response []byte) (list []entry, ok bool) {
	var events []wireEvent
	if json.Unmarshal(response, &events) != nil {
		return nil, false
	}
	for _, e := range events {
		list = append(list, entry{Event: task.Event{Kind: e.Kind, From: e.From, To: e.To}, At: e.At})
	}
	return list, true
}

// taskEvents returns the events of a task without refused calls, oldest first.
func (h *History) taskEvents(id string) []entry {
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

// refusals returns at most n of the latest refused calls, newest first.
func (h *History) refusals(n int) []entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []entry
	for i := h.refused.len() - 1; i >= 0 && len(list) < n; i-- {
		list = append(list, h.refused.at(i))
	}
	return list
}

// ring holds the entries that were added last, at most limit of them.
type ring struct {
	limit int
	list  []entry
	first int // index of the oldest entry, once the list is full
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

// at returns the entry with index i, counted from the oldest.
func (r *ring) at(i int) entry { return r.list[(r.first+i)%len(r.list)] }

// clip truncates s to maxText bytes. The result is a copy: s may be part of a large message.
func clip(s string) string { return strings.Clone(cut(s, maxText)) }

// cut returns s if it has at most n bytes. Otherwise it returns the complete runes among the first
// n bytes, and an ellipsis.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

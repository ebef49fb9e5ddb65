package task

import (
	"container/list"
	"time"
)

// ticket is the place of work in the [scheduler].
type ticket struct {
	s         *scheduler
	principal string
	pool      *pool     // nil for work that starts regardless of the limits
	slot      bool      // the work is that of a task and counts against Options.Limits.Running
	run       *Run      // of the task; nil for calls of Acquire
	placement placement // of the task
	number    uint64    // orders the tickets
	start     func()    // called once the work may start; must return at once

	// deaths, changed and window are those of a suspect; see [trials]: Reruns of its record, when
	// the record was changed last before the death of its process, and the duration of its trial.
	deaths  int
	changed int64
	window  time.Duration

	place             *list.Element // in its line; nil unless it waits there
	started, released bool
}

// queue holds the tickets that wait for a pool. Principals have turns; the tickets of one principal
// are in the order in which they were added.
type queue struct {
	lines map[string]*line // by principal
	turns list.List        // of *line; the line with the next turn is first
	size  int              // number of tickets
}

// line holds the tickets of one principal.
type line struct {
	turn    *list.Element // in turns
	tickets list.List     // of *ticket
}

func (q *queue) push(t *ticket) {
	l := q.lines[t.principal]
	if l == nil {
		if q.lines == nil {
			q.lines = map[string]*line{}
		}
		l = new(line)
		l.turn = q.turns.PushBack(l)
		q.lines[t.principal] = l
	}
	t.place = l.tickets.PushBack(t)
	q.size++
}

// first returns the next ticket. The queue must not be empty.
func (q *queue) first() *ticket {
	return q.turns.Front().Value.(*line).tickets.Front().Value.(*ticket)
}

// remove removes a ticket. Its principal has had its turn if it was the first.
func (q *queue) remove(t *ticket) {
	l := q.lines[t.principal]
	if l.turn == q.turns.Front() && t.place == l.tickets.Front() {
		q.turns.MoveToBack(l.turn)
	}
	l.tickets.Remove(t.place)
	t.place = nil
	if l.tickets.Len() == 0 {
		q.turns.Remove(l.turn)
		delete(q.lines, t.principal)
	}
	q.size--
}

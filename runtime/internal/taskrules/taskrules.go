// Package taskrules has what package task shares with the packages of this module that run its work
// or serve it to peers, and with no others.
package taskrules

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// KindAnswer is the Kind of the entry in a journal for the answer to an input request, with the key,
// the occurrence and the place of Run.Ask. The Manager adds these entries. The work must not use
// this kind for other results.
const KindAnswer byte = 1

// KindUndo is the Kind of the entry with which work registers that it must undo something if the
// task fails, is cancelled or expires. The Manager then runs the work again; see Run.Undoing.
const KindUndo byte = 5

// KindFailure is the Kind of the entry of how work has failed that undoes what it has done: its
// outcome once it has done so. The Result is that of the outcome or, if the entry is Failed, its
// Error. The Manager adds the entry; see Run.BeginUndo. There is none if the journal had no room for
// it.
const KindFailure byte = 9

// Undo says why restartable work undoes what it has done; see task.Durable.
type Undo = uint8

const (
	UndoNone      Undo = iota // it does not
	UndoFailed                // it has failed
	UndoCancelled             // the task was cancelled
	UndoExpired               // the task has expired
)

// Phases of restartable work; see task.Record.
const (
	PhaseRunning   = iota // runs, unless it is parked
	PhaseNew              // has not begun
	PhaseSuspended        // has begun and does not run at present
	// PhaseTrial is PhaseRunning of work that has run before in a process that died. It is the
	// latest work that has begun in its process; see task.Recovery.MaxReruns.
	PhaseTrial
	// PhaseDoomed is set once the process of a trial has died. The work does not run. The task
	// fails after a while, unless that process turns out to live.
	PhaseDoomed
)

// What the Error of an input request is if the work has given it up. It is a JSON string, so that it
// differs from the error objects of requestors.
const (
	TimedOut = `"timed out"` // the deadline has passed
	GivenUp  = `"given up"`  // the work does not wait any longer
)

// MaxOpenInput is how many input requests of a task or of a call may be open. Requestors refuse more.
const MaxOpenInput = 64

// Limits of signals: how many signals a task may have that its work has not taken, how many bytes
// their names and values may have together, and how many a name may have.
const (
	MaxSignals     = 64
	MaxSignalBytes = 256 << 10
	MaxSignalName  = 256
)

// CheckSignalName returns an error unless name can be that of a signal: valid UTF-8, not empty, and
// at most MaxSignalName bytes long.
func CheckSignalName(name string) error {
	switch {
	case name == "":
		return errors.New("signal without a name")
	case len(name) > MaxSignalName:
		return fmt.Errorf("name of a signal is longer than %d bytes", MaxSignalName)
	case !utf8.ValidString(name):
		return fmt.Errorf("name of a signal %q is not valid UTF-8", name)
	}
	return nil
}

// ErrNotMovable reports that an operator cannot move a task to this process.
var ErrNotMovable = errors.New("task: only restartable work of a fleet can be taken over")

// MaxRetained is how long a task that must be undone is kept after its expiry or, if that is later,
// after it began to be undone, for example because no process knows its work. A store must not lose
// it before; see Record.Retained.
const MaxRetained = 30 * 24 * time.Hour

// Times of undos that fail, or that the work does not come to. The pause between two attempts is
// half the time for which the process has been trying, so that the attempts become rarer.
const (
	MaxUndoTime  = 24 * time.Hour // of an undo in a process that tries it
	minUndoPause = 200 * time.Millisecond
	maxUndoPause = 5 * time.Minute
)

// UndoPause returns the pause after an attempt to undo something that has failed, if it has been
// tried for some time.
func UndoPause(elapsed time.Duration) time.Duration {
	return min(max(elapsed/2, minUndoPause), maxUndoPause)
}

// Watch reports changes of some tasks, whose records are R. Its methods may be called concurrently.
type Watch[R any] interface {
	// Get returns the record of a task that the Watch has reported, for the method of a request. It
	// does not count as a call of the principal. If it fails with ErrUnavailable, the Watch reports
	// the task again after a second.
	Get(ctx context.Context, id, method string) (R, error)
	// Remove ends the reports of changes of one task.
	Remove(id string)
	// Close ends the Watch.
	Close()
}

package task

import (
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// The journal of a handler, its server and the page for operators are in other packages of this
// module. What they need of a Run or a Manager, and no program does, is here, so that a program
// sees neither, and the compiler still checks each call.

// runInternals is a Run with the methods that only packages of this module call.
type runInternals struct{ *Run }

// Internals returns what only packages of this module can call.
func (run *Run) Internals(boundary.Caller) runInternals { return runInternals{run} }

// managerInternals is a Manager with the methods that only packages of this module call.
type managerInternals struct{ *Manager }

// Internals returns what only packages of this module can call.
func (m *Manager) Internals(boundary.Caller) managerInternals { return managerInternals{m} }

// SharedTime is [Run.sharedTime].
func (run runInternals) SharedTime(t time.Time) time.Time { return run.sharedTime(t) }

// Requestor is [Run.requestor].
func (run runInternals) Requestor() Requestor { return run.requestor() }

// Undoing is [Run.whyUndo].
func (run runInternals) Undoing() (why taskrules.Undo, since time.Time) { return run.whyUndo() }

// Undoes reports whether the work has registered that it must undo something.
func (run runInternals) Undoes() bool { return run.undoes.Load() }

// BeginUndo is [Run.beginUndo].
func (run runInternals) BeginUndo(failure Outcome) error { return run.beginUndo(failure) }

// UndoTime is [Run.undoTime].
func (run runInternals) UndoTime(number int) time.Duration { return run.undoTime(number) }

// Runs is [Manager.runsHere].
func (m managerInternals) Runs(tool string, labels ...string) bool {
	return m.runsHere(tool, labels...)
}

// Lacks is [Manager.lacks].
func (m managerInternals) Lacks(labels ...string) string { return m.lacks(labels...) }

// WaitsFor is [Manager.waitsFor].
func (m managerInternals) WaitsFor(r *Record) string { return m.waitsFor(r) }

// Package task runs the tasks of the Model Context Protocol. A task is a request whose receiver
// responds at once with the state of the task; the requestor fetches the result later.
//
// # Words
//
// The requestor sends a request, and the receiver runs it. A client can have either role, and so
// can a server. A task is the state of one request that its receiver runs. The work is the function
// that the receiver runs for the task. The outcome of the work is a result or a JSON-RPC error. A
// principal is the user on whose authority a requestor sends requests. Tasks belong to principals,
// not to sessions or connections. A record is the copy of a task in a [Store]. A brief is a record
// without payloads. An input request is a request from the work to the requestor. A job is work
// that an external system does.
//
// # Journals
//
// Restartable work runs again from its start after a restart. It can record results in the journal
// of its task, with [Run.Record], and make input requests that later runs know, with [Run.Ask]. A
// later run reads the journal with [Run.Journal]. Such work is parked while it only waits: it
// returns [ErrParked], its goroutine ends, and the work runs again when an answer is stored or,
// after [Run.Sleep], the time has come. See [Recovery.ParkAfter].
//
// # Who decides
//
// The record in the store decides, and nothing in memory does. To change a record, a [Manager]
// reads it, modifies it, and writes it back if it has not been written since; otherwise it starts
// again. [Moves] lists the legal moves of a task, and every change is checked against it. So if
// several callers try to end a task, one of them succeeds, and the task does not change after that.
// All changes go through a Manager. In one process, a store has one Manager. In a fleet, the
// Managers of all processes change the records of one store; they need no lock and no common clock.
//
// The work of a task runs in one place. In a fleet, the [Claim] in the record names the member that
// holds the task. A member holds tasks for as long as it renews its lease. If its lease ends, it
// stops its work with [ErrFenced], and another member takes the task over by a write that only one
// of them can do. The store rejects what the earlier holder writes after that.
//
// # The life of a task
//
// [Manager.Create] stores the record before the work begins; from then on the task is promised. The
// work runs, waits for room ([Limits.Running] and limits of tools), or is parked. Its outcome is
// stored, and those who wait for it in [Manager.Result] get it, in all processes. If the process
// ends first, [New] recovers the unfinished tasks of the store, and in a fleet the other members
// do: work that is restartable runs again, other work fails. A finished task stays in the store
// until its lifetime ends. A task that has undos to run stays until they have run
// ([Record.Retained]).
//
// A [Run] is a task in this process: the work that runs here, that rests here because it is parked,
// or that another member runs while a caller waits here.
//
// # When something fails
//
//   - The store fails: everything that is read or written for a task is repeated while the task
//     lives. New tasks are refused with [ErrUnavailable], and [Manager.Health] reports the cause.
//   - It is unknown whether a creation was stored: it fails with [ErrDoubtful], and the task does
//     not run.
//   - The work panics: its task fails. If it ends its process, it runs again in a trial, apart from
//     other work, and fails if the process dies again ([Recovery.MaxReruns]).
//   - The tool of a task is not there, or not in the version that the task has begun in: the task
//     waits, see [Manager.Get].
//   - A wall clock is wrong: a task expires only if a second clock agrees. In a fleet, that is the
//     clock of the store; in one process, the time that has passed since it started.
package task

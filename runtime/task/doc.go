// Package task runs the tasks of the Model Context Protocol: requests that are answered at once
// with the promise of a result, and go on for as long as they take.
//
// # Words
//
// The requestor is who sends a request, the receiver who runs it; a client and a server can be
// either. A task is the state of one request that its receiver runs. The work is what the receiver
// does for it, and its outcome a result or a JSON-RPC error. A principal is on whose behalf a
// requestor asks; tasks belong to principals, not to sessions or connections. A record is a task
// as a [Store] keeps it; a brief is a record without payloads. A question is a request from the
// work to its requestor. A job is work that another system does.
//
// # Who decides
//
// A [Manager] is the receiver's side, and the only one that changes the tasks of its store. [Moves] is
// the table of a task's life, and each change goes through it: the record is read, changed, and
// written back if nobody else has written it since; otherwise all of that is done again. So of
// several who want to end a task one does, and nothing that the work does later moves it.
//
// The Manager knows nothing of sessions. How a requestor is reached is the [Requestor] that comes with
// each call; package receiver makes them from sessions, package requestor is the other side.
//
// # A task's life
//
// [Manager.Create] stores the record before it returns, and starts the work in a goroutine whose
// context ends only when the task is cancelled or expires, or the Manager closes. The outcome is
// stored as the plain request would have been answered, with the related task in its _meta, and
// read as often as anybody likes. [Manager.Result] waits on the store's watch, which wakes every
// waiter and misses nothing: it is told of changes by revision, not by events.
//
// Input requests are part of the record. They are sent to a requestor that waits in Result, at that
// moment or much later. If several wait, the latest receives them, as it may have lost the
// connection of its earlier call; they are then cancelled at the earlier waiter. If the connection
// breaks, they go to another waiter, or to the next one. Progress takes the same way.
//
// Expired tasks are dropped by one goroutine, which sleeps until the next is due.
//
// # When things go wrong
//
//   - The work fails, panics, or ends its goroutine, or its result or its error panics: the task is
//     failed, and nothing else.
//   - The store fails: calls are answered with an internal error. An outcome that cannot be stored is
//     kept, and stored when the store works again; [Manager.Health] and [Stats.Unstored] tell. A write
//     does not end with the context of its caller, and one that fails is checked against what the
//     store has.
//   - A record is damaged: its task is failed, others are unharmed.
//   - A requestor does not read: its own work waits, for a tenth of a second before the outcome is
//     stored and a second for a status. Nothing else does.
//   - The process dies: see docs/tasks.md. What was acknowledged is there; work runs again only if
//     it is declared [Request.Restartable].
//   - The requestor goes away: the task goes on. What it is told meanwhile is lost, what it is asked
//     waits.
package task

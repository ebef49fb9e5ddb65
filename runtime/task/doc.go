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
// after [Run.Sleep], the time has come. See [Config].ParkAfter.
//
// # Changes
//
// A [Manager] is the receiver's side. No other component changes the tasks of its store. [Moves]
// lists the legal moves of a task, and every change is checked against it. To change a record, the
// Manager reads it, modifies it, and writes it back if it has not been written since; otherwise the
// Manager starts again. If several callers try to end a task, one of them succeeds. The task does
// not change after that.
package task

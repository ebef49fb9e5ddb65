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
// work to its requestor.
//
// # States
//
// [Moves] is the table of a task's life; docs/tasks.md has it as a diagram.
package task

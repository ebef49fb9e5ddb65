// Package rerun runs the handler of a call again from its top with what earlier runs of it have
// obtained: the outcomes of steps, the ends of sleeps and the responses to input requests. Package
// server and the embeddings into other SDKs share it.
//
// # Where outcomes are recorded
//
// A [Log] is one run of the handler. In a task, it reads the journal of the task, and writes each
// new outcome to the journal before the handler gets it. Only tasks that are durable have a
// journal. In a plain call with [Options].Rounds, an input request ends the run, and [Log.End]
// returns the outcomes for the next run; they travel to the client and back as a sealed [State],
// see [Keys]. Such a call may become a task while its handler is running: [Log.BeforeTask] makes
// the outcomes so far the beginning of the journal. In any other call, the handler runs once, and
// nothing is recorded.
//
// # Branches, identity and order
//
// The operations of a handler are steps, sleeps, input requests and waits. Each belongs to a
// branch: the handler itself, or a function of [Log.RunAll] or [Log.Branch], whose context names
// the branch. Operations of one branch follow one another. Two that overlap make the run invalid,
// already in the first run, because the results of a later run would depend on chance.
//
// An [ID] identifies an outcome by branch, kind, key and, among equal keys of the branch,
// occurrence. The key of an input request is a digest of its method and params, see [InputKey]; the
// key of another operation is its name. An entry also has the position of the operation in its
// branch. A run that asks for something new at a position at or after that of an outcome it has not
// asked for is not deterministic; it fails before the new operation begins. So does a new step of a
// function of RunAll, or of an attempt, if the branch that waits for it has such an outcome. If a
// branch is not run at all, only the end of the run shows that. Entries of versions of this package
// that knew no branches have no position: such a call goes on under the old rules, by which End
// alone checks it.
//
// # What is recorded when
//
// A step begins when its function is called, and whatever the function returns is recorded, also
// after the end of the step's own context. Only the end of the execution leaves a step open: the
// task is cancelled, the Manager closes, or the client of a plain call is gone. If the own context
// of an operation ends first, that is its outcome, and later runs fail in the same way: an input
// request is given up, or a sleep ends early, or a step does not begin. Deadlines of input requests
// and sleeps are recorded when they begin, so later runs keep the deadline of the first one.
//
// # Waits
//
// [Select] and [Await] wait for the first of several events: input requests, a signal, a time. Such
// a wait is one operation, whose outcome names the event that was the first. An entry before that
// has the time, which is that of the first timer or the deadline of the wait. Input requests are
// made by functions in branches of their own; a function runs in each run, so that its outcomes are
// asked for. In this order:
//
//  1. All functions run until they have to send a request. If one of them has ended, because its
//     responses are recorded, it is the first. Otherwise a signal in the record of the task is, or
//     the time if it has passed.
//  2. If there is none, the requests are sent, and the wait takes the first event that it sees.
//  3. The outcome is recorded. A signal leaves the record of the task with the same write, so that
//     it is lost in no crash and received once. If another branch has taken it, the wait goes on.
//  4. The open input requests of the other functions are given up, which is recorded as their
//     outcome, and their functions end. After a crash in between, the next run gives them up.
//
// A run that is suspended before the outcome is recorded leaves the wait as it is. If an event has
// happened at the same time, the next run begins at once.
//
// # Suspension
//
// A run is suspended when an input request ends the round, when the task is parked, and when its
// Manager closes. From then on, no operation begins in any branch, deferred ones included, whatever
// the handler does with the [*InputRequiredError] that it gets. Recorded outcomes are still
// returned, even if the context has ended: otherwise the run would look as if it did not ask for
// them. In a round, branches that have not ended it yet may add their input requests to it.
//
// # Undos
//
// A handler registers undos with [Log.Compensate]. The registration is an operation, and its
// outcome is a number that orders the undos of all branches. If the call fails, [Log.Undo] runs
// them after the handler has returned. In a durable task, the record of the task says first that it
// does ([task.Durable].Undo), and the journal gets the end of each undo. A run of the handler that
// begins after that, in a later process or because the task was cancelled or has expired, only
// registers the undos: it gets what was recorded, and a new operation fails. A registration that is
// new is accepted until then, because the operation before it is recorded.
//
// # The end of a run
//
// End waits for the steps of a suspended run that are still running. When it has returned, nothing
// is recorded: a step that outlives its run would otherwise record an outcome that the next run has
// recorded, too.
package rerun

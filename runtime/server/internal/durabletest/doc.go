// Package durabletest proves that durable work does what its model promises: it generates handlers,
// lets each of them run in many ways, and compares what has happened with an interpreter of the
// model. It has tests only.
//
// # The parts
//
// A program (node) is a handler as data: a small tree of steps, with and without a server.Retry,
// sleeps, input requests, waits for the first of several events and for signals, registered undos,
// branches of RunAll and of goroutines, blocks with a deadline, loops, fallbacks and compensations
// in a defer. Handlers, branches, steps, undos and deferred functions may panic, and the result of
// the handler may be one that cannot be sent. Some programs let two operations of one branch
// overlap, or wait for events in an undo, which are mistakes. The function of a case may look
// something up before its input request, which it does not make if its context ends meanwhile.
// Goroutines may cancel the context of all others when one of them gets a suspension, as an
// errgroup.Group does. Data can be generated from a seed, run as a handler, made smaller, and
// printed as text that resembles Go. A program does not look at the errors that it gets, as many
// handlers do not: it does something else instead, compensates or tries again, whatever the reason
// is.
//
// A fate is what happens to a call apart from what its program says: whether it is a plain call in
// a session, a plain call in rounds, a call that becomes a task, which need not be durable, or a
// task at once; whether its handler is parked at each wait; and what disturbs it: the death of the
// process before or after a write, a shutdown, faults and delays of the store, a cancellation of
// the task, or of its request just before, at or after its creation, the end of the lifetime of
// the task, lost connections and restarts between rounds. The processes share a store in memory or
// a file, or are the members of a fleet. The process after the first one may have a program in
// which a step is renamed, added or left out, or may lack the tool or its version for some time.
//
// A world is everything outside of the processes: the effects of steps and undos, the sender of
// signals, the user who fills forms, and what the store has persisted. Each execution of a step,
// and each answer of the user, has a token that occurs nowhere else. So the world knows whose
// outcome a handler gets, and, because it sees each write of the store, at which moment an outcome
// is recorded. A process that has died has no effects: its store takes no writes, its connection is
// closed, and the functions of its steps do not begin. Its goroutines may live on, with contexts
// that end or do not.
//
// All of this takes place in a bubble of testing/synctest. The time of a program does not pass
// really, and no two of its durations are equal. So a seed and a fate give the same history again,
// up to goroutines that act at the same moment, and the random part of the pauses between attempts.
//
// # The model
//
// Rules that hold at each moment are checked when something happens:
//   - A step does not begin after its outcome was recorded, after an operation of its run has
//     reported that the run is suspended, or after the call was cancelled.
//   - A step begins again only if its outcome could not be recorded: its process has died, the
//     execution of its handler has ended first, or the handler has cancelled it in a suspended run. All executions of the step with a branch, a name
//     and an occurrence have the same idempotency key, and no other step has it.
//   - A step with a server.Retry begins again as often as its policy says, and after the pauses
//     that it says, whichever processes count. Failures that are final, and its end, are kept to.
//   - A step does not begin in place of one that was recorded, nor in a branch whose parent has
//     recorded something later.
//   - An undo begins once the handler has returned and the call has failed, was cancelled or has
//     expired, after the undos that were registered later have succeeded. It begins again only if
//     it has failed, or its success could not be recorded. No step begins after it.
//   - A Select ends with an answer before its time, and no earlier and no later than its time. The
//     user no longer sees the input requests of the other cases.
//   - A task whose tool or version a process lacks waits, and its status message is not empty.
//   - A second operation of a branch fails, and so does the call.
//   - A wait for events in an undo fails.
//   - In rounds, the user is not asked again after the deadline of an input request.
//   - The task of a request that was cancelled ends.
//   - The handler of a durable task gets an outcome only once it is recorded, gets that of the
//     operation that it asked for, and gets the same one in all runs.
//   - The user is not asked again after the answer was recorded, and in an undisturbed call is
//     asked once.
//   - A sleep ends no earlier than the time that its function has returned in the first run.
//   - When Shutdown has returned, each outcome that was there before is recorded.
//   - No client gets the text of an error of the store.
//
// When the call has ended, the model interprets its program with the outcomes that its operations
// have had: which operations must have happened, in which order in each branch, which outcome a
// step or an input request must have had, what the call returns, and that nothing else has
// happened, such as a compensation of work that has not failed. It knows which undos must have
// succeeded, and that signals of one name have come in their order without a gap. A branch of a
// call that was cancelled or lost ends with its first operation that has no outcome.
//
// # What the proof does not know
//
// Programs wait for all that they start: none leaves a goroutine of its own behind, so that the end
// of a run need not wait for a step. In a plain call in rounds whose connection is lost, the undos
// of the lost round run while the client repeats it, so that nothing is checked about undos.
//
// # Runs
//
//	go test ./runtime/server/internal/durabletest -run Random -handlers 100000 -timeout 2h
//
// plays that many handlers, each with four fates, from a random seed, and takes nine minutes of
// one core. It ends at the first violation, whose handler it makes smaller; with -survey, it
// counts them. The flags of the package say what else a run may do.
//
// # How the proof was proved
//
// Each of these changes was made to the implementation, and found by TestRandomHandlers -seed 1.
// The numbers are those of the handlers that it took, in those versions of the generator that the
// operations concern: a seed makes another handler in a later one.
//   - steps begin in a suspended run (1), suspension does not reach the branch around another one
//     (396), a running step does not delay parking (1), parked work does not wake at its time (1),
//     operations that a handler cancels because of a suspension are recorded as given up (8)
//   - the order of operations is not checked in a branch (4), or in the branch around it (245);
//     overlapping operations are not noticed (27)
//   - outcomes of other branches are found (1), later runs exchange the functions of RunAll (1),
//     branches with names do not depend on the branch around them (95)
//   - failures of steps are recorded as results (4), steps whose context has ended are not recorded
//     (5), nor are results that JSON cannot hold (25)
//   - idempotency keys depend on the run (1), do not depend on the branch (18), differ between
//     attempts (1), are the same for undos of one name (31)
//   - the handler gets a result before it is recorded (1), Record ends with the context of the work
//     (2), faults of the store are not retried (16)
//   - a sleep begins anew in each run (6), its deadline is not recorded (19), nor is that it was
//     given up (76); the deadline of an input request is that of the present round (832)
//   - a call that becomes a task forgets what it has recorded (18), or its id (25)
//   - failed attempts are forgotten (1), one attempt is too many (1), final errors are tried again
//     (25), the limit of the time of all attempts is ignored (53) or begins anew (60), the backoff
//     does not double (1), pauses are not recorded (1)
//   - undos run in the order of their registration (31), after a success (1), when work was parked
//     (1), again although their end was recorded (1), once only (1), not after a cancellation (1),
//     not after the end of the lifetime (120 and 336, in two runs); a later run numbers them from 1
//     again (31); a result that cannot be sent counts as a success (454)
//   - the winner of a Select is not recorded (3), the input requests of the others are not
//     withdrawn (20), those that their functions do not make again stay open or count as missing
//     (60), the time of a Select begins anew in each run (18) and comes before an answer (18), its
//     deadline is not recorded (1099), one that is refused loses its responses (1141)
//   - a signal is received twice (15), the latest one first (15), early ones are dropped (15),
//     parked work does not wake for one (6)
//   - the panic of a step is not recorded (35), or is an error in later runs (56), a handler that
//     panics after its run was suspended is not run again (51), an undo that panics is done (1)
//   - the task of a request that was cancelled goes on (16), a call that is not durable becomes a
//     task although it has open input requests (146)
//   - the deadline of an input request that was left out of a round is forgotten (19, with all
//     fates of rounds without all responses)
//
// Operations that begin while undos run make the test hang, and so does a version that runs the
// tasks of all others. That Close does not wait for records is not found, because the run of the
// handler that records has not ended either. An occurrence that is not compared changes nothing for
// these programs, because the order in a branch decides. End need not wait for steps, see above.
package durabletest

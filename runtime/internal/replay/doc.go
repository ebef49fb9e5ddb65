// Package replay runs a handler again from its top with the results that earlier runs recorded.
//
// A handler makes input requests and runs steps. A [Recorder] serves one run of it. It finds the
// recorded result of an input request or a step by its [ID]: the kind, the key and, among equal
// keys, the occurrence. The key of an input request is a digest of its method and params, see
// [InputKey]; the key of a step is its name. Goroutines of a handler may therefore make input
// requests and run steps concurrently, in any order.
//
// The [Backend] gets the input requests that have no recorded response, and each new result.
// [Rounds] is the Backend of plain calls of revisions without sessions: an input request fails with
// [ErrSuspended], which ends the round, and results are collected for the next round. They travel
// to the client and back as a sealed [State]; see [Keys]. A Backend for tasks waits for the
// response and persists each result before the handler gets it. Without a Backend, a Recorder only
// runs steps.
//
// After the first ErrSuspended, steps that have no recorded result do not begin, unless
// [Recorder.KeepStepping] was called. Recorded results are returned nevertheless, even if the
// context has ended: otherwise the run would look as if it did not ask for them.
//
// [Recorder.End] ends a run. If the handler is run again, End first waits for steps that are still
// running, because their results must not be lost. When End has returned, nothing is recorded: a
// step that outlives its run would otherwise record a result that the next run has recorded, too.
//
// End fails with a [*NondeterminismError] if the run asked for something new without having asked
// for all recorded results, and with a [*DuplicateError] if two steps, or two sleeps, of one name
// ran at the same time, because then their occurrences are ambiguous. Equal input requests may be
// made at the same time, but which of them gets which response is open, and may change from run to
// run.
package replay

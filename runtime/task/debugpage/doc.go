// Package debugpage is a page for those who operate a receiver of tasks: which tasks there are, by
// status, by owner and by age, what has happened to each, and the counters of its [task.Manager].
//
//	history := debugpage.NewHistory(0)
//	tasks, err := task.New(ctx, task.Config{Store: store, Audit: history.Add})
//	…
//	debug.Handle("/tasks", debugpage.New(debugpage.Config{Store: store, Stats: tasks.Stats, History: history}))
//
// The page shows the tasks of every principal, ids included, and asks nobody who they are: it
// belongs on a debug port that only operators reach, never beside the endpoint of the protocol.
// It changes nothing, and does not show the payloads of tasks: of params, questions and outcomes
// it tells the size alone.
//
// Much of what it shows was written by strangers. It is escaped, cut where it is long, and shown
// under a content security policy that allows no script, no form and no frame.
//
// Every view goes over the whole store once, and keeps a page of it in memory. History is a fixed
// number of events: those of a busy receiver reach back minutes, the state of a task is always there.
package debugpage

// Package debugpage serves a page for operators of a receiver of tasks. The page lists the tasks by
// status, owner and age, and shows the history of each task and the counters of the [task.Manager].
//
//	history := debugpage.NewHistory(0)
//	tasks, err := task.New(ctx, task.Options{
//		Store: store,
//		Hooks: task.Hooks{Audit: history.Add, Queried: history.Respond},
//	})
//	…
//	debug.Handle("/tasks", debugpage.New(debugpage.Of(tasks, store, history)))
//
// With a server of package server, the Manager is Server.Tasks after Server.Start, and the Hooks
// are the Tasks.Hooks of its Options.
//
// In a fleet, the page of each process shows the tasks of all of them, their holders and the
// members. It gets the histories of the other processes if each has history.Respond as Queried.
//
// The page shows the tasks of every principal, with their ids, and does not authenticate its users.
// Serve it on a debug port that only operators can reach, never beside the endpoint of the
// protocol. With Options.Cancel, its users can cancel every task; pages of other sites cannot. The
// page shows the size of params and outcomes, not their contents.
//
// Many of the texts on the page are chosen by peers. They are escaped, truncated if they are long,
// and shown under a content security policy that allows no scripts and no frames, and only forms
// that lead to the page itself.
//
// The list, and the view of a task that is not terminal, refresh themselves every 5 seconds. A list
// reads at most Options.MaxTasks tasks; if there are 1000 or more, all lists of the next 5 seconds
// use them. The history holds a fixed number of events of this process. On a busy receiver it
// covers only minutes.
package debugpage

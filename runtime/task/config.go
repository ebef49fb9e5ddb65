package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Options configures a [Manager]. Only Store is required. A number that is zero means the default,
// and a negative one is an error of [New] that names the field; [NoLimit] means no limit, and [Off]
// that something is switched off, where the field says so.
type Options struct {
	// Store holds the records of the tasks. The Manager does not close it; close it after the
	// Manager.
	Store Store
	// Member describes this process in the fleet of a shared store. It has no effect on other
	// stores.
	Member Member

	// TTL is how long tasks live.
	TTL TTL
	// Limits limit what principals, tools, tasks and this process may use.
	Limits Limits
	// Updates says how requestors learn of changes.
	Updates Updates
	// Recovery says how work runs again.
	Recovery Recovery
	// Jobs are the external systems that run jobs, by name; see [Request.Runner].
	Jobs map[string]Jobs

	// Hooks are functions that the Manager calls when something happens.
	Hooks Hooks
	// Logger receives the same events, and failures of the store and of work. If it is nil,
	// warnings and errors go to [slog.Default].
	Logger *slog.Logger
}

// NoLimit is the value of a field that sets no limit, and Off that of one that switches off what
// the field is about.
const (
	NoLimit = boundary.None
	Off     = boundary.None
)

// TTL is the part of an [Options] that says how long tasks live.
type TTL struct {
	// Default is the lifetime of a task, from its creation on, if the requestor does not request
	// one. The default is an hour, or Max if that is shorter.
	Default time.Duration
	// Max is the longest lifetime of a task. A requestor that asks for more gets Max. The
	// default is 24 hours.
	Max time.Duration
	// Unlimited makes a task never expire if its requestor requests no lifetime or requests null.
	Unlimited bool
}

// Updates is the part of an [Options] that says how requestors learn of changes.
type Updates struct {
	// Poll is the interval of polling that is suggested to requestors. The default is
	// a second; [Off] suggests none.
	Poll time.Duration
	// Progress is the minimum time between two progress notifications of a task. The
	// default is 100 milliseconds; [Off] means no minimum.
	Progress time.Duration
	// Quiet switches notifications/tasks/status off.
	Quiet bool
}

// Limits limit what one principal, this process, a tool and a task may use.
//
// Tasks, Bytes, Rate and Burst apply to each principal. All clients without a principal count
// together. Those of one network may use half of these limits, so that one stranger leaves room for
// others: the HTTP handlers tell the network of a client. After a restart, and on another member of
// a fleet, a task no longer counts for its network. In a fleet, each member counts the unfinished
// tasks that it holds or has created, and the calls that it gets. Bytes applies to all tasks of the
// principal in the store: a member lists them each time that it has stored a sixteenth of the
// limit, so n members together exceed it by n sixteenths at most, or by what they store while they
// list the tasks.
type Limits struct {
	// Tasks is the maximum number of tasks that are not terminal. A cancelled or expired task
	// counts until its work has returned. The default is 1,000. It may be [NoLimit].
	Tasks int
	// Bytes is the maximum number of stored bytes of all tasks, including results and answers. A
	// task counts as the length of its texts plus about 500 bytes. In memory, the records take at
	// most twice the limit. The same holds for the file of a bolt store, apart from the space of
	// dropped tasks. If work continues after its task is terminal, the params of its request still
	// count. The default is 256 MiB. It may be [NoLimit].
	Bytes int64
	// Rate is the maximum number of task calls per second, of all methods together. The default is
	// 1,000. It may be [NoLimit].
	Rate float64
	// Burst is the maximum number of calls at once. The default is twice the Rate. With
	// [NoLimit], Rate has no effect.
	Burst int

	// Running is the maximum number of tasks whose work runs in this process at once, without jobs.
	// Further ones wait: their status is working, and they take no goroutine. The principals that wait
	// have turns. Work that waits for input or sleeps counts until it is parked. A call that becomes a
	// task while it runs counts, but does not wait. Work that waits for other tasks counts, too, so
	// tasks that all wait for further ones would wait for ever. The default is no maximum.
	Running int
	// Tool returns the maximum number of calls of a tool that run at once in the fleet of a
	// shared store, or in this process with another store; 0 means no maximum. It gets the
	// [Request].Name of a task, and that of the tool for calls that are not tasks.
	// Further tasks wait as with Running. A member that has died counts until its lease has
	// ended; then the contexts of its work have ended, too. Tool must be fast. It is called
	// concurrently.
	Tool func(tool string) int `json:"-"`
	// Journal is the maximum size in bytes of the journal of a task: what its work has recorded,
	// and its input requests with their answers. Entries count as the length of their texts plus
	// about 100 bytes. Beyond it, [Run.Record] and [Run.Ask] fail with a [*JournalError]. The
	// default is 1 MiB; [NoLimit] means no maximum. Bytes applies, too.
	Journal int64
	// PageSize is the number of tasks in a page of [Manager.List]. The default is
	// 50.
	PageSize int
}

// Recovery is the part of an [Options] that says how work runs again, after a restart or when it
// was parked.
type Recovery struct {
	// Recover returns the work that is re-run for an unfinished task that was created as
	// restartable: by [New], and when parked work runs again. If it returns nil, or if Recover is
	// nil, the task waits: in a fleet, for a member that returns work for it, and otherwise until
	// [Manager.ToolsChanged] is called. Work of the version in Durable.Version of the record must
	// be returned, or such that continues from its journal; if Record.Begun is false, of any
	// version.
	Recover func(r Record) Work
	// ParkAfter is the time after which restartable work that only waits, for input, a
	// signal or a time, is parked: the waits return [ErrParked], and the work runs
	// again, from its start, when an answer or a signal is stored, or the time to wake or the
	// deadline of a wait has come. A parked task takes no goroutine, in this process and after a
	// restart. The time doubles, up to a day, each time that a task is parked while its work has
	// more to do. The default is a minute; [Off] means that work is not parked.
	// Without Recover, work is not parked either.
	ParkAfter time.Duration
	// ToolVersion returns the version of the work of a tool in this process; see [Request.Version].
	// The work of a task that another process has created, but that has not begun, begins in this
	// version. It gets [Request.Name]. It must be fast, and is called concurrently. If it is nil,
	// the task keeps its version.
	ToolVersion func(tool string) string
	// MaxReruns is the maximum number of times that restartable work runs again after its process
	// has died while it ran, without progress in between. Without a maximum, work that crashes its
	// process could do so again after every restart, until the task expires. Another task may have
	// caused the death. So work that runs again has a trial of some seconds: meanwhile, no other
	// work of a task begins in the process. The task fails only if the process dies during a trial.
	// Otherwise, the work runs again, beyond the maximum, too. Work of a failed task that has
	// something to undo runs again for that, with further trials.
	//
	// The end of the lease of a member that joins again is no death, nor is the end of a process
	// that calls Close. Parked work does not run. The count starts again when the work records an
	// entry or an answer to [Run.Ask] is stored. The default is 1; [NoLimit] means no maximum, and no
	// trials.
	MaxReruns int
}

// Hooks are functions that a [Manager] calls when something happens. Each may be nil.
type Hooks struct {
	// Audit receives every event of a task. It is called in the goroutine in which the event
	// occurs, possibly concurrently, and must return quickly. A panic of it is logged. If Audit is
	// nil, events are only logged.
	Audit func(Event)
	// Queried returns the response of this member of a fleet to a question of the page for
	// operators. It is called concurrently and must return at once. A panic of it is logged. If it is nil, responses
	// are empty.
	Queried func(request []byte) (response []byte)
	// Observer observes the work of tasks; nil for none.
	Observer Observer
}

// Defaults of an [Options].
const (
	defaultTTL              = time.Hour
	defaultMaxTTL           = 24 * time.Hour
	defaultPollInterval     = time.Second
	defaultProgressInterval = 100 * time.Millisecond
	defaultPageSize         = 50
	defaultMaxTasks         = 1000
	defaultMaxBytes         = 256 << 20
	defaultMaxRate          = 1000
	defaultMaxJournal       = 1 << 20
	defaultMaxReruns        = 1
	defaultParkAfter        = time.Minute
)

// withDefaults returns a copy of c with all defaults set. In the copy, 0 means no limit.
func (c Options) withDefaults() (Options, error) {
	if c.Store == nil {
		return c, errors.New("task: Options.Store is nil")
	}
	faults := boundary.Faults{Package: "task"}
	boundary.Default(&faults, "TTL.Max", &c.TTL.Max, defaultMaxTTL)
	boundary.Default(&faults, "TTL.Default", &c.TTL.Default, min(defaultTTL, c.TTL.Max))
	if c.TTL.Max < time.Millisecond {
		faults.Add(fmt.Errorf("task: TTL.Max (%v) is less than a millisecond", c.TTL.Max))
	}
	if c.TTL.Default < time.Millisecond {
		faults.Add(fmt.Errorf("task: TTL.Default (%v) is less than a millisecond", c.TTL.Default))
	}
	if c.TTL.Default > c.TTL.Max {
		faults.Add(fmt.Errorf("task: TTL.Default (%v) is greater than TTL.Max (%v)", c.TTL.Default, c.TTL.Max))
	}
	boundary.OrNone(&faults, "Limits.Tasks", &c.Limits.Tasks, defaultMaxTasks)
	boundary.OrNone(&faults, "Limits.Bytes", &c.Limits.Bytes, defaultMaxBytes)
	boundary.OrNone(&faults, "Limits.Rate", &c.Limits.Rate, defaultMaxRate)
	if c.Limits.Burst == NoLimit {
		c.Limits.Rate = 0 // any number of calls is accepted at once
	}
	boundary.OrNone(&faults, "Limits.Burst", &c.Limits.Burst, max(1, int(2*c.Limits.Rate)))
	boundary.OrNone(&faults, "Limits.Running", &c.Limits.Running, 0)
	boundary.OrNone(&faults, "Limits.Journal", &c.Limits.Journal, defaultMaxJournal)
	boundary.Default(&faults, "Limits.PageSize", &c.Limits.PageSize, defaultPageSize)
	boundary.OrNone(&faults, "Updates.Poll", &c.Updates.Poll, defaultPollInterval)
	c.Updates.Poll = wholeMilliseconds(c.Updates.Poll)
	boundary.OrNone(&faults, "Updates.Progress", &c.Updates.Progress, defaultProgressInterval)
	boundary.OrNone(&faults, "Recovery.ParkAfter", &c.Recovery.ParkAfter, defaultParkAfter)
	boundary.OrNone(&faults, "Recovery.MaxReruns", &c.Recovery.MaxReruns, defaultMaxReruns)
	var err error
	if c.Member.Labels, err = taskrules.LabelSet(c.Member.Labels); err != nil {
		faults.Add(fmt.Errorf("task: Member.Labels: %w", err))
	}
	boundary.Default(&faults, "Member.Lease", &c.Member.Lease, 0)
	c.Logger = boundary.Logger(c.Logger)
	return c, faults.Err()
}

// wholeMilliseconds rounds an interval up to whole milliseconds, the unit of the protocol. It
// returns 0 for a negative interval.
func wholeMilliseconds(d time.Duration) time.Duration {
	return (max(d, 0) + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Requestor sends messages to the requestor of a task, for example over one session. Values must be
// comparable with ==. Its methods return when their context ends.
type Requestor interface {
	// Call sends an input request of the work. An error that is not a [*jsonrpc.Error] means that
	// the input request has no answer yet; it stays pending for the next waiter in
	// [Manager.Result].
	jsonrpc.Caller
	// Notify sends notifications about the task: its status, its progress, and the notifications of
	// the work.
	jsonrpc.Notifier
}

// Capable is a [Requestor] that knows which input requests it supports. An input request that it
// does not support is left to other requestors of the task.
type Capable interface {
	// Supports reports whether the requestor supports input requests of the given method.
	Supports(method string) bool
}

// Progress is one progress report of a task.
type Progress struct {
	Value   float64  // increases with every report
	Total   *float64 // the Value at which the work is done; nil if unknown
	Message string   // human-readable; may be empty
}

// Jobs runs jobs in an external system, such as a batch system, a queue or another service. A task
// that stands for a job survives a restart of the receiver, which then continues to follow the job.
type Jobs interface {
	// Start starts the job of a task and returns the job's name. If the receiver stops before the
	// name is stored, Start is called again with the same r.ID; it must not start a second job
	// then.
	Start(ctx context.Context, r Record) (job string, err error)
	// Look returns the current state of a job. An error means that the state is temporarily
	// unknown; Look is called again later. A panic fails the task and cancels the job.
	Look(ctx context.Context, job string) (Look, error)
	// Cancel stops a job whose task was cancelled, has expired, or failed because Look panicked. It
	// also stops a job whose name could not be stored. It is called again if it fails. For
	// cancelled tasks it is also called after each restart.
	Cancel(ctx context.Context, job string) error
}

// Look is the state of a job.
type Look struct {
	Done    bool
	Outcome Outcome       // outcome of a job that is Done
	Message string        // new status message of the task; "" keeps the current one
	After   time.Duration // time until the next call of Look; 0 means one second
	// Progress is reported to the requestor; nil reports nothing.
	Progress *Progress
}

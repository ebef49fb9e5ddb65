package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// Config says how a [Manager] behaves. Only Store must be set.
type Config struct {
	// Store keeps the tasks. Whoever made it closes it, after the Manager.
	Store Store

	// DefaultTTL is how long after its creation a task is kept whose requestor does not say. The
	// default is [DefaultTTL], or MaxTTL if that is less.
	DefaultTTL time.Duration
	// MaxTTL is the longest time a requestor gets; it gets that if it asks for more. The default
	// is [DefaultMaxTTL].
	MaxTTL time.Duration
	// Unlimited keeps tasks for ever whose requestor does not say how long, or says null.
	Unlimited bool

	// PollInterval is the pace of polling that requestors are asked to keep to. The default is
	// [DefaultPollInterval]; a negative value leaves it to them.
	PollInterval time.Duration
	// ProgressInterval is the least time between two progress notifications of a task. The default is
	// [DefaultProgressInterval]; a negative value means no limit.
	ProgressInterval time.Duration
	// PageSize is how many tasks a page of [Manager.List] has. The default is [DefaultPageSize].
	PageSize int

	// Limits hold for each principal.
	Limits Limits

	// Quiet sends no notifications/tasks/status.
	Quiet bool

	// Recover returns the work of a task that was running when the receiver stopped and that is
	// declared restartable. If it returns nil, or is nil itself, the task fails.
	Recover func(r Record) Work
	// Jobs are the systems that do work elsewhere, by name; see [Request.Runner].
	Jobs map[string]Jobs

	// Audit is told of everything that happens to tasks, in the goroutine that it happens in; it
	// must be quick and may be called by many at once. A panic of it is logged. If it is nil,
	// events are only logged.
	Audit func(Event)
	// Logger receives the same events, and faults of the store and of work. If it is nil, warnings
	// and errors go to [slog.Default].
	Logger *slog.Logger
}

// Limits are what one principal may have. Zero stands for the default, and a negative value for
// no limit.
type Limits struct {
	// Tasks counts tasks that are not terminal, and cancelled and expired ones until their work has
	// returned. The default is [DefaultMaxTasks].
	Tasks int
	// Bytes counts the stored bytes of all its tasks, results and answers included, and the
	// requests of work that goes on after its task is terminal. The default is [DefaultMaxBytes].
	Bytes int64
	Rate  float64 // task calls per second, whatever the method; by default [DefaultMaxRate]
	Burst int     // how many calls may come at once; by default twice the Rate; if negative, Rate has no effect
}

// What holds where a [Config] does not say otherwise.
const (
	DefaultTTL              = time.Hour
	DefaultMaxTTL           = 24 * time.Hour
	DefaultPollInterval     = time.Second
	DefaultProgressInterval = 100 * time.Millisecond
	DefaultPageSize         = 50
	DefaultMaxTasks         = 1000
	DefaultMaxBytes         = 256 << 20
	DefaultMaxRate          = 1000
)

// withDefaults returns a copy of c in which all is set, and 0 stands for no limit.
func (c Config) withDefaults() (Config, error) {
	if c.Store == nil {
		return c, errors.New("task: no store")
	}
	if c.MaxTTL == 0 {
		c.MaxTTL = DefaultMaxTTL
	}
	if c.DefaultTTL == 0 {
		c.DefaultTTL = min(DefaultTTL, c.MaxTTL)
	}
	if c.MaxTTL < time.Millisecond || c.DefaultTTL < time.Millisecond || c.DefaultTTL > c.MaxTTL {
		return c, fmt.Errorf("task: a default ttl of %v and a greatest one of %v do not go together", c.DefaultTTL, c.MaxTTL)
	}
	if c.PageSize < 0 {
		return c, fmt.Errorf("task: a page size of %d", c.PageSize)
	}
	c.PollInterval = wholeMilliseconds(orDefault(c.PollInterval, DefaultPollInterval))
	c.ProgressInterval = orDefault(c.ProgressInterval, DefaultProgressInterval)
	c.PageSize = orDefault(c.PageSize, DefaultPageSize)
	c.Limits.Tasks = orDefault(c.Limits.Tasks, DefaultMaxTasks)
	c.Limits.Bytes = orDefault(c.Limits.Bytes, DefaultMaxBytes)
	c.Limits.Rate = orDefault(c.Limits.Rate, DefaultMaxRate)
	if c.Limits.Burst < 0 {
		c.Limits.Rate = 0 // any number of calls may come at once
	}
	c.Limits.Burst = orDefault(c.Limits.Burst, max(1, int(2*c.Limits.Rate)))
	c.Logger = boundary.Logger(c.Logger)
	return c, nil
}

// wholeMilliseconds rounds an interval up to whole milliseconds, the unit of the protocol. It
// returns 0 for a negative one.
func wholeMilliseconds(d time.Duration) time.Duration {
	return (max(d, 0) + time.Millisecond - 1).Truncate(time.Millisecond)
}

// orDefault is v, or def if v is 0, or 0 if v is negative.
func orDefault[T int | int64 | float64 | time.Duration](v, def T) T {
	switch {
	case v == 0:
		return def
	case v < 0:
		return 0
	}
	return v
}

// Requestor is a way to reach the requestor of a task. Values are compared with ==. Its methods
// return when their context ends.
type Requestor interface {
	// Call sends a question of the work. An error that is no [*jsonrpc.Error] means that the
	// question has no answer yet, and goes to whoever asks for the result next.
	jsonrpc.Caller
	// Notify sends notifications about the task: its state, its progress, and those of the work.
	jsonrpc.Notifier
}

// Capable is a [Requestor] that knows which input requests it supports. One that does not support an
// input request leaves it to other requestors of the task.
type Capable interface {
	// Supports reports whether requests of a method may be sent to the requestor.
	Supports(method string) bool
}

// Progress is one report about a task.
type Progress struct {
	Value   float64  // how much is done; it grows with every report
	Total   *float64 // the Value at which all is done, or nil if that is unknown
	Message string   // for people; may be empty
}

// Jobs do work elsewhere: in a batch system, a queue, another service. A task that stands for
// such a job survives a restart of the receiver, which then goes on looking after it.
type Jobs interface {
	// Start begins the job of a task and returns what to call it. It may be called again for a
	// task, if the receiver stopped before the name was stored; r.ID is then the same, and must
	// not give a second job.
	Start(ctx context.Context, r Record) (job string, err error)
	// Look tells how far a job is. An error means that this is not known at the moment.
	Look(ctx context.Context, job string) (Look, error)
	// Cancel stops a job whose task was cancelled or has expired. It is called again if it fails, and
	// for cancelled tasks after each restart.
	Cancel(ctx context.Context, job string) error
}

// Look is the state of a job.
type Look struct {
	Done    bool
	Outcome Outcome       // of a job that is done
	Message string        // the status message from now on; "" leaves it as it is
	After   time.Duration // when to look again; 0 leaves that to the Manager
	// Progress is what to report, or nil for nothing.
	Progress *Progress
}

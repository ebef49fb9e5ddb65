package task

import (
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
)

// Member describes a process of a fleet.
type Member struct {
	// ID identifies the member among all members that have ever joined. Join sets it.
	ID string
	// Name is the name of the process, for operators; it need not be unique. The default is the
	// host name and the process id.
	Name string
	// Tools are the names of the tools whose restartable tasks the member runs. If it is nil, the
	// member runs those of all tools that [Recovery.Recover] accepts. Other tasks run in the process
	// that creates them. Once that has died, any member fails them, or follows their jobs if it has
	// their [Request].Runner.
	Tools []string
	// Labels are what the member has that tasks may require, such as "gpu" or "region=eu"; see
	// [Request].Labels: at most 16 different ones, each of 1 to 128 ASCII letters, digits and
	// characters of "-_.:/=".
	Labels []string
	// Lease is the time after which a member counts as dead if it has not renewed its lease. The
	// default is [DefaultLease]; the minimum is a second.
	Lease time.Duration
	// Joined is the time at which the member joined. Join sets it.
	Joined time.Time
	// Draining is set once the member takes over no more tasks. Drain of the membership sets it, and
	// Join resets it.
	Draining bool
	// Missing are the tools, and versions of tools, whose tasks the member has refused: the latest
	// 64, in the order of the refusals.
	// Announce of the membership sets it, and Join resets it.
	Missing []fleets.Missing
	// Heard is when this process has last heard from the member, by its own clock. The lease ends
	// about a Lease later, unless the member renews it. Members sets it.
	Heard time.Time
	// Load is the load of the member at that time. Members sets it.
	Load fleets.Load
}

// DefaultLease is the default of [Member].Lease.
const DefaultLease = fleets.DefaultLease

// Claim names the member of a fleet that holds a task. Only the holder runs the work, and only the
// work of the latest claim writes the outcome and the journal: each claim has another Epoch, and a
// [Store] accepts a write only if the record has not changed since it was read. So all writes of a
// member that was replaced fail, independent of its clock.
type Claim struct {
	Member string // ID of the member; "" if no member holds the task
	Epoch  uint64 // number of claims so far
}

// membership is what a shared store gives this process in its fleet.
type membership = fleets.Membership[Member, Record]

package task

import (
	"context"
	"fmt"
	"iter"
	"os"
	"time"
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
	// Draining is set once the member takes over no more tasks. [Membership.Drain] sets it, and
	// Join resets it.
	Draining bool
	// Missing are the tools, and versions of tools, whose tasks the member has refused: the latest
	// 64, in the order of the refusals.
	// [Membership.Announce] sets it, and Join resets it.
	Missing []Missing
	// Heard is when this process has last heard from the member, by its own clock. The lease ends
	// about a Lease later, unless the member renews it. Members sets it.
	Heard time.Time
	// Load is the load of the member at that time. Members sets it.
	Load Load
}

// Load counts the tasks of a member by the state of their work; see [Stats].
type Load struct {
	Running, Queued, Parked int
}

// DefaultLease is the default of [Member].Lease.
const DefaultLease = 20 * time.Second

// WithDefaults returns the member with the defaults of Name and Lease. [Store].Join calls it.
func (m Member) WithDefaults() Member {
	if m.Lease == 0 {
		m.Lease = DefaultLease
	}
	if m.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		m.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	return m
}

// Events are the callbacks of a member. They may be called concurrently and must return at once.
type Events struct {
	// Departed is called when another member has left or died, and when such an event may have been
	// missed. Members no longer lists that member. Departed is also called when another member
	// drains, or announces other Missing.
	Departed func()
	// Offered is called with the id of a task that [Membership.Offer] offers to this member.
	Offered func(id string)
	// Shared is called with the name of a quota in which this member has a share, after another
	// member has changed the quota, and when such a change may have been missed.
	Shared func(quota string)
	// Load returns the load of this member. It is called before each renewal of the lease, and may
	// be called by [Membership.Members]. It may be nil.
	Load func() Load
	// Queried is called with the request of [Membership.Query] of another member, and returns the
	// response. If it is nil, the response is empty.
	Queried func(request []byte) (response []byte)
}

// Membership is the place of one member in a fleet. Its methods may be called concurrently.
type Membership interface {
	// Self returns the member, with all defaults.
	Self() Member
	// Members returns the living members, this one included, in ascending order of their IDs. The
	// list may be out of date. The caller must not hold locks that Events.Load takes.
	Members() []Member
	// Alive reports whether a member is alive. Unlike Members, it is never out of date: a member
	// that is reported dead never becomes alive again.
	Alive(ctx context.Context, id string) (bool, error)
	// Orphans iterates over the briefs of the tasks that need a holder and that no living member
	// holds; see [Record.NeedsHolder]. It yields each task that is one of them during the whole
	// iteration exactly once, in no particular order. Its cost depends on the number of tasks that
	// departed members held, not on the number of tasks in the store. It stops after the first
	// error.
	Orphans(ctx context.Context) iter.Seq2[Record, error]
	// Expired returns a channel that is closed when the lease of this member has ended. Other
	// members may have taken over its tasks. By the clock of this process, it is closed no later
	// than other members can find this one dead.
	Expired() <-chan struct{}

	// Follow reports what other members do with a task until stop is called. Changes that are made
	// through the store of this member are not reported, unless the store returned an error for
	// them. Stop does not wait for callbacks.
	Follow(id string, f Follower) (stop func())
	// Send sends a message to the members that follow a task, except this one. It is delivered at
	// most once to each. Messages of one member arrive in order.
	Send(ctx context.Context, id string, message []byte) error
	// Offer reports an unclaimed task to a member. The offer may be lost.
	Offer(ctx context.Context, member, id string) error

	// Query sends a request to all other living members, and returns their responses by the ID of
	// the member. It returns once all have responded, or ctx ends: then those that have not
	// responded are missing, without an error. Requests and responses may be lost.
	Query(ctx context.Context, request []byte) (responses map[string][]byte, err error)

	// Reserve replaces the numbers of permits of a quota that this member uses and wants. Then
	// Share returns its share. Free permits are granted to the members that want more permits than
	// they have, in turns. If other members wait, the member gives back the permits that it does
	// not use, and waits behind them. The permits that are granted or in use are at most
	// [Reservation].Max, unless more are in use. A member that has departed has no share. A member
	// that neither uses nor wants permits has no part in the quota.
	//
	// If Reserve fails, the share is unknown until a later call succeeds: the member keeps the
	// permits that it uses, and may lose the others. Calls for one quota must not overlap.
	Reserve(ctx context.Context, quota string, r Reservation) error
	// Share returns the latest known share of this member. It is zero if the member has no part in
	// the quota.
	Share(quota string) Share

	// Drain sets Draining of this member, at once in what Self and Members of this member return,
	// and soon in what Members of the others return. It may be called again, and returns at once.
	Drain()
	// Announce sets Missing of this member, at once in what Self and Members of this member return,
	// and soon in what Members of the others return. It returns at once. The list must not be
	// changed later.
	Announce(missing []Missing)
	// Leave ends the membership: other members take over its tasks.
	Leave(ctx context.Context) error
}

// Follower are the callbacks of [Membership.Follow]. They may be called concurrently and must
// return at once.
type Follower struct {
	// Changed is called after another member has changed or dropped the record, and when such a
	// change may have been missed. It may also be called when nothing has changed.
	Changed func()
	// Message is called with each message of [Membership.Send]. It may be nil.
	Message func(message []byte)
}

// Claim names the member of a fleet that holds a task. Only the holder runs the work, and only the
// work of the latest claim writes the outcome and the journal: each claim has another Epoch, and a
// [Store] accepts a write only if the record has not changed since it was read. So all writes of a
// member that was replaced fail, independent of its clock.
type Claim struct {
	Member string // ID of the member; "" if no member holds the task
	Epoch  uint64 // number of claims so far
}

// Package fleets has what the Managers of a fleet and the store that they share say to each other.
// Only the stores of this module implement it: a fleet of another store would be a reason to settle
// these types, and to make them public.
package fleets

import (
	"context"
	"fmt"
	"iter"
	"os"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
)

// Load counts the tasks of a member by the state of their work; see task.Stats.
type Load struct {
	Running, Queued, Parked int
}

// DefaultLease is the lease of a member that says none.
const DefaultLease = 20 * time.Second

// NeedsHolder reports whether a member should hold a task with a status and a job: it is not
// terminal, or it was cancelled and its job may still run.
func NeedsHolder(status mcp.TaskStatus, job string) bool {
	switch status {
	case mcp.TaskStatusCompleted, mcp.TaskStatusFailed:
		return false
	case mcp.TaskStatusCancelled:
		return job != ""
	}
	return true
}

// Missing is what a member of a fleet does not have of a tool: one version of its work, or the
// tool.
type Missing struct {
	Tool    string `json:"tool"`              // see task.Request.Name
	Version string `json:"version,omitempty"` // the version, unless All is set
	All     bool   `json:"all,omitempty"`     // the member does not have the tool in any version
}

// SetDefaults sets the name and the lease of a member that has none. Join of a store calls it.
func SetDefaults(name *string, lease *time.Duration) {
	if *lease == 0 {
		*lease = DefaultLease
	}
	if *name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		*name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
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

// Membership is the place of one member in a fleet. Member is task.Member, and Record is
// task.Record. Its methods may be called concurrently.
type Membership[Member, Record any] interface {
	// Self returns the member, with all defaults.
	Self() Member
	// Members returns the living members, this one included, in ascending order of their IDs. The
	// list may be out of date. The caller must not hold locks that Events.Load takes.
	Members() []Member
	// Alive reports whether a member is alive. Unlike Members, it is never out of date: a member
	// that is reported dead never becomes alive again.
	Alive(ctx context.Context, id string) (bool, error)
	// Orphans iterates over the briefs of the tasks that need a holder and that no living member
	// holds; see NeedsHolder. It yields each task that is one of them during the whole
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
	// Reservation.Max, unless more are in use. A member that has departed has no share. A member
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

// Reservation is the part of a quota that a member of a fleet uses and wants. A quota is a number
// of permits that all members share.
type Reservation struct {
	Used int64 // permits in use; they count even if they are not granted
	Want int64 // permits that the member could use; at least Used
	Max  int64 // permits of the quota
}

// Share is a member's share of a quota.
type Share struct {
	// Granted is the number of permits that the member may use. Only the member itself lowers it,
	// by [Membership.Reserve].
	Granted int64
	// Contended is set while another member waits for permits.
	Contended bool
	// Stale is set if a member that has departed may still have permits, which Reserve takes away.
	Stale bool
}

// Package quota divides the permits of a quota among the members of a fleet.
package quota

import (
	"slices"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
)

// State is the state of a quota. It is immutable: its methods return another State. It has an entry
// for each member with a part in the quota, in the order in which the members wait.
type State []Entry

// Entry is the part of one member.
type Entry struct {
	Member  string `json:"member"`
	Used    int64  `json:"used"`    // permits in use; possibly more than granted
	Granted int64  `json:"granted"` // permits that the member may use
	Want    int64  `json:"want"`    // permits that the member could use
}

// taken returns the number of permits that other members cannot have.
func (e *Entry) taken() int64 { return max(e.Used, e.Granted) }

// waits reports whether the member wants more permits.
func (e *Entry) waits() bool { return e.taken() < e.Want }

// Reserve returns the state after a member has called [fleets.Membership.Reserve]. Dead reports
// whether another member has ended.
func (s State) Reserve(member string, r fleets.Reservation, dead func(member string) bool) State {
	own := Entry{Member: member}
	first := true
	s = slices.DeleteFunc(slices.Clone(s), func(e Entry) bool { return e.Member != member && dead(e.Member) })
	at := slices.IndexFunc(s, func(e Entry) bool { return e.Member == member })
	if at >= 0 {
		own, first = s[at], false
		s = slices.Delete(s, at, at+1)
	}
	contended := slices.ContainsFunc(s, func(e Entry) bool { return e.waits() })
	waited, before := own.waits(), own.Granted
	own.Used, own.Want = r.Used, max(r.Want, r.Used)
	own.Granted = min(own.Granted, own.Want)
	if contended {
		own.Granted = min(own.Granted, own.Used)
	}
	if first || own.Granted < before || !waited {
		at = len(s)
	}
	s = slices.Insert(s, at, own)
	free := r.Max
	for i := range s {
		free -= s[i].taken()
	}
	if free >= 0 { // what is used is within the quota
		for i := range s {
			s[i].Granted = s[i].taken()
		}
		s.grant(free)
	}
	return slices.DeleteFunc(s, func(e Entry) bool { return e.taken() == 0 && e.Want == 0 })
}

// grant grants free permits in turns.
func (s State) grant(free int64) {
	for free > 0 {
		waiting := int64(0)
		for i := range s {
			if s[i].waits() {
				waiting++
			}
		}
		if waiting == 0 {
			return
		}
		portion := max(free/waiting, 1)
		for i := 0; waiting > 0 && free > 0; waiting-- {
			for !s[i].waits() {
				i++
			}
			e := s[i]
			n := min(portion, free, e.Want-e.Granted)
			e.Granted += n
			free -= n
			copy(s[i:], s[i+1:])
			s[len(s)-1] = e
		}
	}
}

// Share returns the share of a member. Known reports whether another member is alive.
func (s State) Share(member string, known func(member string) bool) (share fleets.Share) {
	for i := range s {
		switch e := &s[i]; {
		case e.Member == member:
			share.Granted = e.Granted
		case !known(e.Member):
			share.Stale = true
		default:
			share.Contended = share.Contended || e.waits()
		}
	}
	return share
}

// Has reports whether a member has a part in the quota.
func (s State) Has(member string) bool {
	return slices.ContainsFunc(s, func(e Entry) bool { return e.Member == member })
}

// Waits reports whether a member wants more permits than it has.
func (s State) Waits(member string) bool {
	return slices.ContainsFunc(s, func(e Entry) bool { return e.Member == member && e.waits() })
}

package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// The index of holders has an entry for each task that needs a holder, under the member of its
// claim. A member that claims a task reads the record, then writes the entry, then writes the
// claim. So no entry is missing. An obsolete entry may remain if the claim failed, or if the member
// ended before it removed the entry. A reader removes an obsolete entry only once the claim that it
// may belong to can no longer succeed.

// heldSubject returns the subject of the entry of a task in the index of a member.
func (p place) heldSubject(member string) string { return heldPrefix(p.prefix, member) + p.token }

// heldPrefix returns the common prefix of the subjects of the entries in the index of a member.
func heldPrefix(prefix, member string) string { return prefix + ".h." + token(member) + "." }

// addHeld adds a task to the index of its holder and returns the sequence of the entry.
func (s *store) addHeld(ctx context.Context, r *task.Record) (seq uint64, err error) {
	subject := s.place(r.ID).heldSubject(r.Claim.Member)
	err = s.retry(ctx, "index task", func(ctx context.Context) (err error) {
		seq, err = s.publish(ctx, newMessage(subject, nil, ttlOf(r, s.earlier())))
		return err
	})
	return seq, err
}

// hold prepares the index of holders for a write that replaces before. It returns the sequence of the
// entry that the new record has.
func (s *store) hold(ctx context.Context, before *stored, next *task.Record) (seq uint64, err error) {
	switch {
	case !fleets.NeedsHolder(next.Status, next.Job):
		return 0, nil
	case fleets.NeedsHolder(before.record.Status, before.record.Job) && before.record.Claim.Member == next.Claim.Member:
		return before.held, nil
	}
	return s.addHeld(ctx, next)
}

// release removes the entry of before if a write has made it obsolete. If this member has claimed
// or disclaimed the task, it must be alive: otherwise readers of orphans may already have read the
// index with the entry of after.
func (s *store) release(before, after *stored) {
	if before.held == after.held {
		return
	}
	if after.held != 0 {
		m := s.member.Load()
		if m == nil || m.self.ID != cmp.Or(after.record.Claim.Member, before.record.Claim.Member) || m.lapsed() {
			return
		}
	}
	s.discard(s.place(after.record.ID).stream, before.held)
}

// discard deletes a message without waiting. If that fails, the entry is left for readers. It does
// nothing if seq is 0.
func (s *store) discard(stream string, seq uint64) {
	if seq != 0 {
		s.nc.Publish(s.api+"STREAM.MSG.DELETE."+stream, fmt.Appendf(nil, `{"seq":%d,"no_erase":true}`, seq))
	}
}

// Orphans implements [fleets.Membership]. It reads the indexes of the members that have ended, and
// the index of unclaimed tasks.
func (m *membership) Orphans(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		o := &orphans{m: m, alive: map[string]bool{"": false}, yielded: map[string]bool{}}
		err := m.s.begin(ctx)
		var departed []string
		if err == nil {
			departed, err = o.departed(ctx)
		}
		for _, member := range append(departed, "") {
			empty := true
			for partition := range m.s.partitions {
				if err != nil {
					break
				}
				var ids []string
				ids, err = m.s.heldBy(ctx, partition, member)
				empty = empty && len(ids) == 0
				for some := range slices.Chunk(ids, portion) {
					var briefs []task.Record
					if briefs, err = o.read(ctx, member, some); err != nil {
						break
					}
					for i := range briefs {
						if !yield(briefs[i], nil) {
							return
						}
					}
				}
			}
			if empty && err == nil && member != "" {
				if err = m.s.confirmEmpty(ctx, member); err == nil {
					err = m.s.strike(ctx, member)
				}
			}
		}
		if err = cmp.Or(err, o.damaged); err != nil {
			yield(task.Record{}, err)
		}
	}
}

// orphans is an iteration over the tasks without a living holder.
type orphans struct {
	m       *membership
	yielded map[string]bool // by id of the task

	mu      sync.Mutex
	alive   map[string]bool // by ID of the member
	damaged error           // the first damaged record
}

// departed returns the members of the roster that have ended.
func (o *orphans) departed(ctx context.Context) (ids []string, err error) {
	s := o.m.s
	prefix := s.rosterSubject("")
	subjects, err := s.list(ctx, s.memberStream(), prefix+"*")
	for _, subject := range subjects {
		id := untoken(strings.TrimPrefix(subject, prefix))
		if id == "_" {
			continue // see confirmLast
		}
		lives, err := o.lives(ctx, id)
		if err != nil {
			return nil, err
		}
		if !lives {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// lives reports whether a member is alive. A member that has ended since the latest announcement may
// count as alive: its end will be announced.
func (o *orphans) lives(ctx context.Context, id string) (bool, error) {
	o.mu.Lock()
	lives, known := o.alive[id]
	o.mu.Unlock()
	if known {
		return lives, nil
	}
	o.m.mu.Lock()
	_, lives = o.m.members[id]
	o.m.mu.Unlock()
	if !lives {
		var err error
		if lives, err = o.m.Alive(ctx, id); err != nil {
			return false, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.alive[id] = lives
	return lives, nil
}

// read returns the briefs of the orphans among the given tasks in the index of a member, except
// those that were returned before. It removes obsolete entries.
func (o *orphans) read(ctx context.Context, member string, ids []string) (briefs []task.Record, err error) {
	found := make([]*task.Record, len(ids))
	err = parallel(len(ids), readers, func(i int) error {
		r, err := o.m.s.load(ctx, ids[i])
		if errors.Is(err, errFormat) {
			return nil // for members of that version
		}
		if errors.Is(err, task.ErrCorrupt) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.damaged = cmp.Or(o.damaged, err)
			return nil
		}
		if err != nil {
			return err
		}
		if r != nil && fleets.NeedsHolder(r.record.Status, r.record.Job) {
			// Another member may have claimed the task and ended since the index was read.
			lives, err := o.lives(ctx, r.record.Claim.Member)
			if err != nil {
				return err
			}
			if !lives {
				found[i] = new(r.record.Brief())
				return nil
			}
		}
		return o.m.clean(ctx, member, ids[i])
	})
	for _, r := range found {
		if r != nil && !o.yielded[r.ID] {
			o.yielded[r.ID] = true
			briefs = append(briefs, *r)
		}
	}
	return briefs, err
}

// heldBy returns the ids of the tasks in the index of a member.
func (s *store) heldBy(ctx context.Context, partition int, member string) ([]string, error) {
	prefix := heldPrefix(s.prefix(partition), member)
	ids, err := s.list(ctx, s.recordStream(partition), prefix+"*")
	for i := range ids {
		ids[i] = untoken(strings.TrimPrefix(ids[i], prefix))
	}
	return ids, err
}

// clean removes an obsolete entry from the index of a member that has ended. A claim of that member
// may still be pending: clean replaces the record by an equal one, so that the claim fails. A task
// that is being created has no record yet: its entry stays for orphanAge.
func (m *membership) clean(ctx context.Context, member, id string) error {
	s, at := m.s, m.s.place(id)
	return s.retry(ctx, "remove entry", func(ctx context.Context) error {
		entry, err := s.read(ctx, at.stream, getRequest{Last: at.heldSubject(member)})
		if err != nil || entry == nil {
			return err
		}
		msg, err := s.read(ctx, at.stream, getRequest{Last: at.record}) // after the entry
		if err != nil || msg == nil && s.earlier().Sub(entry.Time) < orphanAge {
			return err
		}
		if msg != nil {
			r, err := decode(msg)
			if err != nil {
				return nil // Orphans reports it
			}
			if fleets.NeedsHolder(r.record.Status, r.record.Job) {
				// A holder that has ended may have claimed the task after its index was read.
				lives, err := m.Alive(ctx, r.record.Claim.Member)
				if err != nil || !lives || r.record.Claim.Member == member {
					return err
				}
				if err := s.touch(ctx, at, msg, &r.record); err != nil {
					return err
				}
			}
		}
		s.discard(at.stream, entry.Seq)
		return nil
	})
}

// touch replaces the message of a record by an equal one. It makes one attempt, and fails if the
// record has changed.
func (s *store) touch(ctx context.Context, at place, m *message, r *task.Record) error {
	msg := newMessage(at.record, m.Data, ttlOf(r, s.earlier()))
	msg.Header.Set(headerExpect, strconv.FormatUint(m.Seq, 10))
	_, err := s.publish(ctx, msg)
	if hasCode(err, codeWrongSequence, codeSequenceInProcess) {
		return errRepeat{err}
	}
	return err
}

// repair adds a task to the index of its holder if its entry is missing.
func (s *store) repair(ctx context.Context, r *task.Record) error {
	at := s.place(r.ID)
	entry, err := s.last(ctx, "index task", at.stream, at.heldSubject(r.Claim.Member))
	if err == nil && entry == nil {
		_, err = s.addHeld(ctx, r)
	}
	if err == nil && r.Claim.Member != "" {
		err = s.enroll(ctx, r.Claim.Member)
	}
	return err
}

// enroll adds a member to the roster, before its first claim.
func (s *store) enroll(ctx context.Context, member string) error {
	return s.retry(ctx, "join", func(ctx context.Context) error {
		_, err := s.publish(ctx, newMessage(s.rosterSubject(token(member)), nil, 0))
		return err
	})
}

// confirmEmpty fails with errOutdated unless the index of a member is empty.
func (s *store) confirmEmpty(ctx context.Context, member string) error {
	for partition := range s.partitions {
		prefix := s.prefix(partition)
		var empty bool
		err := s.retry(ctx, "read index", func(ctx context.Context) (err error) {
			empty, err = s.confirmNone(ctx, prefix, token(member), heldPrefix(prefix, member)+"*")
			return err
		})
		if err == nil && !empty {
			err = fmt.Errorf("jetstream: index of member %q: %w", member, errOutdated)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// confirmNone returns true if no message of a partition has a subject that matches filter. Suffix ends
// the subject of the message that it publishes; see confirmLast.
func (s *store) confirmNone(ctx context.Context, prefix, suffix, filter string) (bool, error) {
	return s.confirmLast(ctx, prefix+".h._."+suffix, filter, 0)
}

// confirmLast reports whether seq is the sequence of the last message of a stream whose subject
// matches filter. A seq of 0 stands for no message. confirmLast publishes an empty message that the
// servers accept only in that case. Unlike the answer to a read, an accepted write cannot come from a
// server that was cut off and still acts as leader. The subject of the message is in the index of
// holders or in the roster, for "_", which is no member. confirmLast makes one attempt.
func (s *store) confirmLast(ctx context.Context, subject, filter string, seq uint64) (bool, error) {
	m := newMessage(subject, nil, tombstone)
	m.Header.Set(headerExpect, strconv.FormatUint(seq, 10))
	m.Header.Set(headerExpectSubject, filter)
	_, err := s.publish(ctx, m)
	switch {
	case hasCode(err, codeSequenceInProcess): // also while another member confirms the same
		return false, errRepeat{err}
	case hasCode(err, codeWrongSequence):
		return false, nil
	}
	return err == nil, err
}

// errOutdated reports that a server has answered with outdated data.
var errOutdated = errors.New("outdated data was read")

// strike removes a member that has ended, and whose index is empty, from the roster.
func (s *store) strike(ctx context.Context, member string) error {
	m, err := s.last(ctx, "remove member", s.memberStream(), s.rosterSubject(token(member)))
	if err == nil && m != nil {
		s.discard(s.memberStream(), m.Seq)
	}
	return err
}

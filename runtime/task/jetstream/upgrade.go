package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Version 2 of the schema has the index of holders and the roster. Members of version 1 have their
// messages under other subjects. The upgrade removes these subjects from the stream, so members of
// version 1 can neither renew their leases nor join.

// olderMembers returns the names of the living members of version 1.
func (s *store) olderMembers(ctx context.Context) (names []string, err error) {
	subjects, err := s.list(ctx, s.memberStream(), s.options.Name+".members.m.*")
	for _, subject := range subjects {
		m, err := s.last(ctx, "read member", s.memberStream(), subject)
		if err != nil {
			return nil, err
		}
		var member wireMember
		if m != nil && json.Unmarshal(m.Data, &member) == nil {
			names = append(names, member.Name)
		}
	}
	return names, err
}

// checkMembers fails while members of version 1 are alive.
func (s *store) checkMembers(ctx context.Context) error {
	names, err := s.olderMembers(ctx)
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("%w: members of an older version are alive: %s", ErrSchema, strings.Join(names, ", "))
	}
	return err
}

// indexHolders builds the index of holders of a partition from its records, for an upgrade. Several
// processes may do so at once, and others may use the store meanwhile.
func (s *store) indexHolders(ctx context.Context, js jetstream.JetStream, partition int, config jetstream.StreamConfig) error {
	for { // until members of version 1 that joined during the upgrade have lost their leases
		names, err := s.olderMembers(ctx)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			break
		}
		select {
		case <-time.After(maxPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	prefix := s.prefix(partition) + ".r."
	subjects, err := s.list(ctx, config.Name, prefix+"*")
	if err != nil {
		return err
	}
	var mu sync.Mutex
	holders := make(map[string]bool)
	err = parallel(len(subjects), readers, func(i int) error {
		r, err := s.load(ctx, untoken(strings.TrimPrefix(subjects[i], prefix)))
		if errors.Is(err, task.ErrCorrupt) || err == nil && (r == nil || r.held != 0 || !fleets.NeedsHolder(r.record.Status, r.record.Job)) {
			return nil
		}
		if err != nil {
			return err
		}
		mu.Lock()
		holders[r.record.Claim.Member] = true
		mu.Unlock()
		_, err = s.addHeld(ctx, &r.record)
		return err
	})
	if err != nil {
		return err
	}
	delete(holders, "")
	for member := range holders {
		if err := s.enroll(ctx, member); err != nil {
			return err
		}
	}
	config.Metadata = maps.Clone(config.Metadata)
	config.Metadata[metaHolders] = "1"
	return s.update(ctx, js, config)
}

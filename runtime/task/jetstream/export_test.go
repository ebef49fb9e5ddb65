package jetstream

import (
	"context"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// Waiters returns the number of calls of Wait that are registered.
func Waiters(s task.Store) int { return s.(*Store).hub.Len() }

// Name returns the name of the streams.
func (s *Store) Name() string { return s.options.Name }

// RemoveAllOrphans is RemoveOrphans for entries of any age.
func (s *Store) RemoveAllOrphans(ctx context.Context) (int, error) { return s.removeOrphans(ctx, 0) }

// SetSweepPortion sets the number of entries of a bucket that are read at once.
func (s *Store) SetSweepPortion(n int) { s.sweepPortion = n }

package jetstreamstore

import "time"

// SetClock replaces the clock that decides when a Store writes what has become old again.
func (s *Store) SetClock(now func() time.Time) { s.now = now }

package proxy

import (
	"testing"
	"testing/synctest"
	"time"
)

// A place that becomes free is for the principal that waits for it, and not for one that has more.
func TestFreePlaceIsForWaitingPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots{name: "a", max: 2, perPrincipal: 2, patience: time.Minute, shares: map[string]*share{}}
		for range 2 {
			if err := s.take(t.Context(), "ada", false); err != nil {
				t.Fatal(err)
			}
		}
		waited := make(chan error, 1)
		go func() { waited <- s.take(t.Context(), "eve", false) }()
		synctest.Wait()
		s.give("ada", false)
		if err := s.take(t.Context(), "ada", false); err == nil {
			t.Error("ada has taken the place again")
		}
		if err := <-waited; err != nil {
			t.Errorf("eve: %v", err)
		}
		if err := s.take(t.Context(), "joe", false); err == nil {
			t.Error("joe has taken a third place")
		}
		s.give("ada", false)
		s.give("eve", false)
		if s.all != 0 || len(s.shares) != 0 {
			t.Errorf("%d connections of %d principals remain", s.all, len(s.shares))
		}
	})
}

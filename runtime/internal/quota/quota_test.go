package quota_test

import (
	"math/rand/v2"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/quota"
)

// As long as members use only granted permits, they use at most the permits of the quota. Every
// waiting member gets a permit once the other members have used theirs.
func TestQuotaIsNeverExceeded(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		limit := 1 + random.Int64N(5)
		ids, used := []string{"a", "b", "c", "d"}, map[string]int64{}
		dead := map[string]bool{}
		var state quota.State
		for range 200 {
			id := ids[random.IntN(len(ids))]
			if random.IntN(20) == 0 { // it dies, and another one takes its place
				dead[id] = true
				used[id] = 0
				for i := range ids {
					if ids[i] == id {
						ids[i] += "'"
					}
				}
				continue
			}
			granted := state.Share(id, func(string) bool { return true }).Granted
			used[id] = random.Int64N(granted + 1)
			r := fleets.Reservation{Used: used[id], Want: used[id] + random.Int64N(4), Max: limit}
			state = state.Reserve(id, r, func(id string) bool { return dead[id] })
			sum := int64(0)
			for _, e := range state {
				if !dead[e.Member] {
					sum += max(e.Granted, used[e.Member])
				}
			}
			if sum > limit {
				t.Fatalf("seed %d: %d of %d permits: %+v", seed, sum, limit, state)
			}
		}
		for _, id := range ids {
			state = state.Reserve(id, fleets.Reservation{Want: 1, Max: limit}, func(id string) bool { return dead[id] })
		}
		for range 3 {
			for _, id := range ids {
				granted := state.Share(id, func(string) bool { return true }).Granted
				if granted == 0 {
					continue
				}
				state = state.Reserve(id, fleets.Reservation{Max: limit}, func(id string) bool { return dead[id] })
			}
		}
		if len(state) != 0 {
			t.Fatalf("seed %d: members still wait: %+v", seed, state)
		}
	}
}

// Permits that are in use without a grant are not granted later while the quota has no room for
// them.
func TestUseAboveQuotaIsNotGranted(t *testing.T) {
	alive := func(string) bool { return false }
	known := func(string) bool { return true }
	state := quota.State{}.Reserve("a", fleets.Reservation{Used: 0, Want: 2, Max: 2}, alive)
	state = state.Reserve("b", fleets.Reservation{Used: 1, Want: 1, Max: 2}, alive)
	if got := state.Share("b", known); got.Granted != 0 || got.Contended {
		t.Errorf("got %+v", got)
	}
	if got := state.Share("a", known); got.Granted != 2 || got.Contended {
		t.Errorf("got %+v", got)
	}
	state = state.Reserve("a", fleets.Reservation{Used: 1, Want: 1, Max: 2}, alive)
	if got := state.Share("b", known); got.Granted != 1 {
		t.Errorf("got %+v after there is room", got)
	}
}

// Members that wait have turns.
func TestMembersHaveTurns(t *testing.T) {
	alive := func(string) bool { return false }
	var state quota.State
	order := ""
	for _, id := range []string{"a", "b", "c"} {
		state = state.Reserve(id, fleets.Reservation{Want: 2, Max: 1}, alive)
	}
	for range 7 {
		for _, e := range state {
			if e.Granted > 0 {
				order += e.Member
				state = state.Reserve(e.Member, fleets.Reservation{Want: 2, Max: 1}, alive)
				break
			}
		}
	}
	if want := "abcabca"; order != want {
		t.Errorf("order %s, want %s", order, want)
	}
}

// Permits that become free at once are divided among the members that wait.
func TestFreePermitsAreDivided(t *testing.T) {
	alive := func(string) bool { return false }
	var state quota.State
	for _, id := range []string{"a", "b", "c"} {
		state = state.Reserve(id, fleets.Reservation{Want: 4, Max: 4}, alive)
	}
	state = state.Reserve("a", fleets.Reservation{Max: 4}, alive)
	for _, id := range []string{"b", "c"} {
		if got := state.Share(id, func(string) bool { return true }).Granted; got != 2 {
			t.Errorf("%s has %d permits, want 2", id, got)
		}
	}
}

package fleetmodel

import (
	"flag"
	"testing"
)

var large = flag.Bool("large", false, "explore larger models in TestProtocol; this takes minutes and gigabytes")

// size is the number of states of a model.
type size int

const (
	small  size = iota // up to 100,000
	medium             // up to a million; not with -short
	huge               // millions; only with -large
)

// The protocol keeps all rules in every state of the models.
func TestProtocol(t *testing.T) {
	for _, test := range []struct {
		name  string
		model model
		size  size
	}{
		{"two members, two steps, an input request, a cancellation and a fault",
			model{processes: 2, work: []operation{step, ask, step}, faults: 1, cancels: 1}, small},
		{"two members, a sleep, a cancellation and a fault",
			model{processes: 2, work: []operation{sleep}, faults: 1, cancels: 1}, small},
		{"two members, a step and two faults",
			model{processes: 2, work: []operation{step}, faults: 2}, small},
		{"two members, an input request and two faults",
			model{processes: 2, work: []operation{ask}, faults: 2}, medium},
		{"a front end, a worker, a step and two faults",
			model{processes: 2, frontEnds: 1, work: []operation{step}, faults: 2}, small},
		{"a member that refuses the task in silence, another one, a step and two faults",
			model{processes: 2, lacking: 2, silent: true, work: []operation{step}, faults: 2}, small},
		{"a member that refuses the task, another one, a step and two faults",
			model{processes: 2, lacking: 2, work: []operation{step}, faults: 2}, small},
		{"a front end, a worker that is upgraded, a step and two faults",
			model{processes: 2, frontEnds: 1, lacking: 2, upgrades: true, work: []operation{step}, faults: 2}, small},
		{"a front end, two workers of which one is upgraded, a step and a fault",
			model{processes: 3, frontEnds: 1, lacking: 2, upgrades: true, work: []operation{step}, faults: 1}, medium},
		{"two members, trials, a step and two faults",
			model{processes: 2, trials: true, work: []operation{step}, faults: 2}, medium},
		{"two members, trials, an input request and two faults",
			model{processes: 2, trials: true, work: []operation{ask}, faults: 2}, medium},
		{"two members, trials, a step, an input request and a fault",
			model{processes: 2, trials: true, work: []operation{step, ask}, faults: 1}, small},
		{"three members, an input request and a fault",
			model{processes: 3, work: []operation{ask}, faults: 1}, small},
		{"a front end, two workers, an input request and a fault",
			model{processes: 3, frontEnds: 1, work: []operation{ask}, faults: 1}, medium},

		{"two members, two steps, an input request, a cancellation and two faults",
			model{processes: 2, work: []operation{step, ask, step}, faults: 2, cancels: 1}, huge},
		{"a front end, two workers of which one is upgraded, a step and two faults",
			model{processes: 3, frontEnds: 1, lacking: 2, upgrades: true, work: []operation{step}, faults: 2}, huge},
		{"three members, trials, a step and two faults",
			model{processes: 3, trials: true, work: []operation{step}, faults: 2}, huge},
		{"two members, trials, a step, an input request and two faults",
			model{processes: 2, trials: true, work: []operation{step, ask}, faults: 2}, huge},
		{"two members, a sleep, a step, a cancellation and two faults",
			model{processes: 2, work: []operation{sleep, step}, faults: 2, cancels: 1}, huge},
		{"two members, a step and three faults",
			model{processes: 2, work: []operation{step}, faults: 3}, huge},
		{"two members, an input request and three faults",
			model{processes: 2, work: []operation{ask}, faults: 3}, huge},
		{"a front end, two workers, a step, a cancellation and two faults",
			model{processes: 3, frontEnds: 1, work: []operation{step}, faults: 2, cancels: 1}, huge},
		{"three members, a step and two faults",
			model{processes: 3, work: []operation{step}, faults: 2}, huge},
		{"three members, an input request and two faults",
			model{processes: 3, work: []operation{ask}, faults: 2}, huge},
	} {
		if test.size == huge && !*large || test.size == medium && testing.Short() {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			found := test.model.explore()
			t.Logf("%d states, %d actions", found.states, found.actions)
			if found.broken != "" {
				t.Errorf("%s:\n%s", found.broken, found.trace)
			}
		})
	}
}

// Every guard is necessary: without it, a rule is broken.
func TestEveryGuardIsNecessary(t *testing.T) {
	var (
		plain    = model{processes: 2, work: []operation{step, ask}, faults: 1, cancels: 1}
		oneStep  = model{processes: 2, work: []operation{step}, faults: 2}
		oneInput = model{processes: 2, work: []operation{ask}, faults: 2}
		frontEnd = model{processes: 2, frontEnds: 1, work: []operation{step}, faults: 1}
		silent   = model{processes: 2, lacking: 2, silent: true, work: []operation{step}, faults: 1}
		upgraded = model{processes: 2, frontEnds: 1, lacking: 2, upgrades: true, work: []operation{step}}
		orphaned = model{processes: 2, lacking: 2, upgrades: true, work: []operation{step}, faults: 1}
		poison   = model{processes: 2, trials: true, work: []operation{step}, faults: 2}
		suspects = model{processes: 2, trials: true, work: []operation{ask}, faults: 2}
	)
	tests := []struct {
		guard  guard
		name   string
		model  model
		broken string
	}{
		{compareAndSwap, "compare-and-swap of Update", plain, "a recorded result is lost"},
		{journalCurrent, "current Journal", oneStep, "a recorded step is executed again"},
		{inspectCurrent, "current Get after Changed", plain, "a task never ends"},
		{scanCurrent, "current Scan after Departed", oneStep, "a task never ends"},
		{departedReported, "Departed", plain, "a task never ends"},
		{membersFirst, "Members without a departed member", plain, "a task never ends"},
		{refollowed, "Follow after a new Join", plain, "a requestor never learns that the task has ended"},
		{uncertainReported, "Changed for a write that was reported as failed", plain, "a requestor never learns that the task has ended"},
		{claimCheck, "claim check of the writes of work", plain, "a write of an older claim is accepted after a later claim"},
		{outcomeClaimCheck, "claim check of outcomes", plain, "a write of an older claim is accepted after a later claim"},
		{takeCheck, "claim check of a takeover", plain, "a task is taken from a living member"},
		{aliveCheck, "Alive instead of Members", plain, "a task is taken from a living member"},
		{takenRetried, "retry after a lost takeover", frontEnd, "a task never ends"},
		{existsRetried, "retry while earlier work returns", frontEnd, "a task never ends"},
		{ownTaken, "takeover of own tasks without a run", frontEnd, "a task never ends"},
		{othersTaken, "takeover by a member that is not designated", silent, "a task never ends"},
		{scanOnJoin, "scan after Join", frontEnd, "a task never ends"},
		{followFirst, "Follow before a takeover", plain, "a requestor never learns that the task has ended"},
		{watchFirst, "Follow before the read of a watch", plain, "a requestor never learns that the task has ended"},
		{inspectOnJoin, "inspection after a new Join", plain, "a requestor never learns that the task has ended"},
		{missedInspected, "inspection after a takeover", oneInput, "a task never ends"},
		{olderIgnored, "inspection ignores older claims", oneStep, "a task never ends"},
		{outcomeDropped, "outcome of fenced work is dropped", plain, "a task fails because its member has lost it"},
		{requestKept, "input request of fenced work stays", plain, "an input request of an unfinished task is withdrawn"},
		{lapsedCheck, "lease check of Create", oneStep, "a task never ends"},
		{lapsedSame, "lease check of the membership in the claim", oneStep, "a task never ends"},
		{placedAgain, "repeated Offer", frontEnd, "a task never ends"},
		{restingCheck, "only resting work is woken", plain, "parked work is woken twice for one cause"},
		{openCheck, "only open input requests are answered", plain, "an input request is answered twice"},
		{recordLooksUp, "Record looks into the journal after a failed write", plain, "a recorded step is executed again"},
		{deathCounted, "count of deaths", poison, "work that has ended a process runs again without a trial"},
		{trialMarked, "mark of a trial", poison, "work runs again that has ended two processes"},
		{trialUnmarked, "end of a trial", poison, "a task fails although it has not ended two processes"},
		{trialOnly, "verdict of a trial only", poison, "a task fails although it has not ended two processes"},
		{suspendMarked, "mark of work that has ended with its Manager", poison, "a task fails although it has not ended two processes"},
		{acquitInspects, "correction of the record after Changed", poison, "a task never ends"},
		{acquitDoubts, "correction of the record after the work has returned", poison, "a task never ends"},
		{acquitLifts, "end of the verdict", poison, "a task fails although it has not ended two processes"},
		{verdictWaits, "wait for members that may live", poison, "a task fails although it has not ended two processes"},
		{refusalAnnounced, "announcement of a refusal", upgraded, "a task is offered again to a member that has refused it"},
		{refusalForgotten, "announcement of further tools", upgraded, "a task never ends"},
		{toolsScan, "scan after further tools", orphaned, "a task never ends"},
		{wakeSuspends, "mark of parked work that is woken", suspects, "a task fails although it has not ended two processes"},
		{parkSuspends, "mark of work that is not parked by a closed Manager", suspects, "a task fails although it has not ended two processes"},
	}
	for i, test := range tests {
		if test.guard != 1<<i {
			t.Fatalf("no test of guard %d", i)
		}
		t.Run(test.name, func(t *testing.T) {
			test.model.without = test.guard
			found := test.model.explore()
			if found.broken != test.broken {
				t.Errorf("after %d states: %q, want %q\n%s", found.states, found.broken, test.broken, found.trace)
			}
			if testing.Verbose() {
				t.Logf("%s, after %d states:\n%s", found.broken, found.states, found.trace)
			}
		})
	}
	if lastGuard>>(len(tests)-1) != 1 {
		t.Errorf("%d guards are tested, the last is %b", len(tests), lastGuard)
	}
}

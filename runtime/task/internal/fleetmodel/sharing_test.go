package fleetmodel

import (
	"fmt"
	"slices"
	"testing"
)

// sharing is a model of processes that run several tasks, of which some end their process shortly
// after they begin: within the time of a trial. Only the scheduling of package task decides here; a
// death is certain, and is counted at once.
type sharing struct {
	poisonous int // number of tasks that end their process; they are the first
	crashes   uint8
	without   sharingGuard
}

// sharingGuard is a set of rules of the scheduler.
type sharingGuard uint8

const (
	aloneInTrial   sharingGuard = 1 << iota // no other work begins while a trial is prepared or runs
	settledBefore                           // a trial does not begin before other work has lasted as long
	suspectsTried                           // work that ran in a process that has died gets a trial
	doomedInTrials                          // a death fails a task in its trial only
	lastSharing    = doomedInTrials
)

// shared is a state of the model.
type shared struct {
	tasks   [3]sharedTask
	trials  [2]uint8 // per process: number of the task whose trial is prepared or runs, from 1
	down    [2]bool
	crashes uint8 // that may still happen, for other reasons than tasks
}

type sharedTask struct {
	phase  sharedPhase
	holder uint8 // process; 0 if the task is unclaimed
	reruns uint8
	trial  bool
	kills  uint8 // number of processes that it has ended
}

type sharedPhase uint8

const (
	unclaimed sharedPhase = iota
	inQueue
	fresh   // has begun a short time ago
	settled // has lasted longer
	failedFor
)

func (t *sharedTask) runs() bool { return t.phase == fresh || t.phase == settled }

// next calls yield with each successor of a state.
func (m *sharing) next(s shared, yield func(action string, to shared)) {
	for i := range s.tasks {
		t := &s.tasks[i]
		if t.phase == unclaimed {
			for p := range s.down {
				if !s.down[p] {
					to := s
					to.tasks[i].phase, to.tasks[i].holder = inQueue, uint8(p)
					yield(fmt.Sprintf("process %d claims task %d", p, i), to)
				}
			}
			continue
		}
		p := t.holder
		suspect := t.reruns > 0 && m.without&suspectsTried == 0
		switch {
		case t.phase == inQueue && !suspect && (s.trials[p] == 0 || m.without&aloneInTrial != 0):
			to := s
			to.tasks[i].phase = fresh
			yield(fmt.Sprintf("task %d begins", i), to)
		case t.phase == inQueue && suspect && s.trials[p] == 0:
			to := s
			to.trials[p] = uint8(i + 1)
			yield(fmt.Sprintf("process %d prepares the trial of task %d", p, i), to)
		case t.phase == inQueue && s.trials[p] == uint8(i+1) && (!s.anyFresh(p) || m.without&settledBefore != 0):
			to := s
			to.tasks[i].phase, to.tasks[i].trial = fresh, true
			yield(fmt.Sprintf("the trial of task %d begins", i), to)
		case t.phase == fresh && i >= m.poisonous:
			to := s
			if to.tasks[i].phase = settled; t.trial {
				to.tasks[i].trial, to.trials[p] = false, 0
			}
			yield(fmt.Sprintf("task %d has lasted", i), to)
		case t.phase == fresh:
			to := s
			to.tasks[i].kills++
			m.end(&to, p)
			yield(fmt.Sprintf("task %d ends process %d", i, p), to)
		}
	}
	for p := range s.down {
		switch {
		case s.down[p]:
			to := s
			to.down[p] = false
			yield(fmt.Sprintf("process %d starts again", p), to)
		case s.crashes > 0 && s.trials[p] == 0:
			to := s
			to.crashes--
			m.end(&to, uint8(p))
			yield(fmt.Sprintf("process %d crashes outside of a trial", p), to)
		}
	}
}

// anyFresh reports whether work of a process has begun a short time ago.
func (s *shared) anyFresh(p uint8) bool {
	return slices.ContainsFunc(s.tasks[:], func(t sharedTask) bool { return t.phase == fresh && t.holder == p })
}

// end ends a process. It stands for countDeath.
func (m *sharing) end(s *shared, p uint8) {
	s.down[p], s.trials[p] = true, 0
	for i := range s.tasks {
		t := &s.tasks[i]
		if t.holder != p || t.phase != inQueue && !t.runs() {
			continue
		}
		doomed := t.runs() && t.reruns > 0 && (t.trial || m.without&doomedInTrials != 0)
		if t.runs() {
			t.reruns = min(t.reruns+1, 3)
		}
		if t.phase, t.holder, t.trial = unclaimed, 0, false; doomed {
			t.phase = failedFor
		}
	}
}

// broken returns the rule that a state breaks, or "".
func (m *sharing) broken(s *shared) string {
	for i := range s.tasks {
		if t := &s.tasks[i]; i >= m.poisonous && t.phase == failedFor {
			return "a task fails that has only shared its processes"
		} else if t.kills > 2 {
			return "a task ends more than two processes"
		}
	}
	return ""
}

// over reports whether all tasks run for long or have failed.
func (s *shared) over() bool {
	return !slices.ContainsFunc(s.tasks[:], func(t sharedTask) bool { return t.phase != settled && t.phase != failedFor })
}

// explore visits all states, and returns their number and the first rule that does not hold: those
// of broken, and that from each state, one can be reached that is over.
func (m *sharing) explore() (states int, broken, trace string) {
	type origin struct {
		from   int
		action string
	}
	first := shared{crashes: m.crashes}
	index := map[shared]int{first: 0}
	all, origins := []shared{first}, []origin{{from: -1}}
	path := func(i int) (text string) {
		for ; i > 0; i = origins[i].from {
			text = fmt.Sprintf("%s: %+v\n", origins[i].action, all[i]) + text
		}
		return text
	}
	var edges [][2]int32
	var ends []int32
	for i := 0; i < len(all); i++ {
		if broken := m.broken(&all[i]); broken != "" {
			return len(all), broken, path(i)
		}
		if all[i].over() {
			ends = append(ends, int32(i))
		}
		m.next(all[i], func(action string, to shared) {
			n, known := index[to]
			if !known {
				n = len(all)
				index[to] = n
				all, origins = append(all, to), append(origins, origin{i, action})
			}
			edges = append(edges, [2]int32{int32(i), int32(n)})
		})
	}
	if i, ok := endless(len(all), edges, ends); ok {
		return len(all), "a task never settles", path(int(i))
	}
	return len(all), "", ""
}

// Tasks that share processes with poisonous ones lose nothing, and these fail after they have ended
// two processes each.
func TestSharedProcesses(t *testing.T) {
	for _, m := range []sharing{{poisonous: 1}, {poisonous: 2}, {poisonous: 1, crashes: 2}, {poisonous: 2, crashes: 1}, {crashes: 3}} {
		states, broken, trace := m.explore()
		t.Logf("%d poisonous tasks, %d crashes: %d states", m.poisonous, m.crashes, states)
		if broken != "" {
			t.Errorf("%s:\n%s", broken, trace)
		}
	}
}

// Every rule of trials is necessary.
func TestEveryRuleOfTrialsIsNecessary(t *testing.T) {
	const failed, ends = "a task fails that has only shared its processes", "a task ends more than two processes"
	for guard, want := range map[sharingGuard]string{aloneInTrial: failed, settledBefore: failed, suspectsTried: ends, doomedInTrials: failed} {
		m := sharing{poisonous: 2, crashes: 1, without: guard}
		if states, broken, trace := m.explore(); broken != want {
			t.Errorf("without %d, after %d states: %q, want %q\n%s", guard, states, broken, want, trace)
		}
	}
	if lastSharing != 1<<3 {
		t.Error("not all rules are tested")
	}
}

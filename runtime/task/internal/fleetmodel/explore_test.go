package fleetmodel

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"unsafe"
)

// hashes are two hashes of a state. States with equal hashes count as equal: it is less likely that
// two of a billion states have the same 128 bits than that the machine fails.
type hashes [2]uint64

var hashSeeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// hash hashes the memory of a state. Its padding is zero: states are zeroed and copied as a whole. If
// it were not, states would only be explored twice.
func hash(s *state) hashes {
	b := unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s))
	return hashes{maphash.Bytes(hashSeeds[0], b), maphash.Bytes(hashSeeds[1], b)}
}

// visited is a state that was reached, and how.
type visited struct {
	parent int32
	action action
}

// exploration is the result of explore.
type exploration struct {
	states, actions int
	broken          string // the rule that does not hold; "" if all hold
	trace           string // how it is broken
}

// explore visits all states of a model breadth-first. It stops at the first state that breaks a rule; the trace to it is one of the shortest. The rules
// are those of stepper.commit, and:
//
//   - An acknowledged task ends, its requestors learn of it, and no run of it remains, unless no
//     process is left. From every state, actions that make progress lead to such a state.
//   - Actions that make progress do not repeat for ever, apart from those of the retry timer: they
//     form no cycle.
func (m *model) explore() (found exploration) {
	first := m.start()
	index := map[hashes]int32{hash(&first): 0}
	from := []visited{{parent: -1}}
	level := []state{first}
	base := int32(0)            // index of the first state of the level
	var edges, timed [][2]int32 // of actions that make progress; timed are those of the retry timer
	var ends []int32
	var next []state
	var out []successor
	for len(level) > 0 {
		next = next[:0]
		for i := range level {
			s, number := &level[i], base+int32(i)
			out = m.next(s, out[:0])
			unfinished := m.unfinished(s)
			if unfinished == "" {
				ends = append(ends, number)
			}
			for j := range out {
				to := &out[j]
				found.actions++
				if to.broken != "" {
					from = append(from, visited{number, to.action})
					found.states, found.broken = len(from), to.broken
					found.trace = m.trace(from, int32(len(from)-1))
					return found
				}
				if to.state == *s {
					continue
				}
				h := hash(&to.state)
				k, known := index[h]
				if !known {
					k = int32(len(from))
					index[h] = k
					from = append(from, visited{number, to.action})
					next = append(next, to.state)
				}
				if !to.progress() {
					continue
				}
				unfinished = ""
				if to.what == retries {
					timed = append(timed, [2]int32{number, k})
				} else {
					edges = append(edges, [2]int32{number, k})
				}
			}
			if unfinished != "" {
				found.states, found.broken = len(from), unfinished
				found.trace = m.trace(from, number)
				return found
			}
		}
		base += int32(len(level))
		level, next = next, level
	}
	found.states = len(from)
	if number, ok := cycle(len(from), edges); ok {
		found.broken = "actions repeat for ever"
		found.trace = m.trace(from, number)
	} else if number, ok := endless(len(from), append(edges, timed...), ends); ok {
		found.broken = "a task never ends, although actions go on"
		found.trace = m.trace(from, number)
	}
	return found
}

// unfinished returns what is missing in a state in which nothing happens any more, or "".
func (m *model) unfinished(s *state) string {
	left := false
	for i := range m.processes {
		left = left || s.processes[i].up && m.serves(i) && !s.processes[i].lacks
	}
	if !left || !s.acked {
		return ""
	}
	if !s.rec.exists {
		return "an acknowledged task is lost"
	}
	if !s.rec.terminal() {
		return "a task never ends"
	}
	for i := range m.processes {
		p := &s.processes[i]
		if !p.up {
			continue
		}
		if p.run.phase != none {
			return "a run remains after its task has ended"
		}
		if p.watching == following {
			return "a requestor never learns that the task has ended"
		}
	}
	return ""
}

// endless returns the first node of a graph from which none of the ends can be reached.
func endless(n int, edges [][2]int32, ends []int32) (node int32, ok bool) {
	for i := range edges {
		edges[i][0], edges[i][1] = edges[i][1], edges[i][0]
	}
	first, sorted := sortEdges(n, edges)
	reached := make([]bool, n)
	for _, i := range ends {
		reached[i] = true
	}
	for done := 0; done < len(ends); done++ {
		i := ends[done]
		for _, j := range sorted[first[i]:first[i+1]] {
			if !reached[j] {
				reached[j] = true
				ends = append(ends, j)
			}
		}
	}
	i := slices.Index(reached, false)
	return int32(i), i >= 0
}

// sortEdges returns the targets of the edges by their origin: those of node i are
// sorted[first[i]:first[i+1]].
func sortEdges(n int, edges [][2]int32) (first, sorted []int32) {
	first = make([]int32, n+1)
	for _, e := range edges {
		first[e[0]+1]++
	}
	for i := range n {
		first[i+1] += first[i]
	}
	sorted = make([]int32, len(edges))
	filled := slices.Clone(first)
	for _, e := range edges {
		sorted[filled[e[0]]] = e[1]
		filled[e[0]]++
	}
	return first, sorted
}

// cycle returns a node of a cycle of a graph with n nodes.
func cycle(n int, edges [][2]int32) (node int32, ok bool) {
	incoming := make([]int32, n)
	for _, e := range edges {
		incoming[e[1]]++
	}
	first, sorted := sortEdges(n, edges)
	var free []int32
	for i := range n {
		if incoming[i] == 0 {
			free = append(free, int32(i))
		}
	}
	for done := 0; done < len(free); done++ {
		i := free[done]
		for _, j := range sorted[first[i]:first[i+1]] {
			if incoming[j]--; incoming[j] == 0 {
				free = append(free, j)
			}
		}
	}
	if len(free) == n {
		return 0, false
	}
	// A node that is left and whose predecessors are left leads back to a cycle.
	back := make([]int32, n)
	for _, e := range edges {
		if incoming[e[0]] > 0 && incoming[e[1]] > 0 {
			back[e[1]] = e[0]
		}
	}
	for i := range n {
		if incoming[i] > 0 {
			node = int32(i)
			break
		}
	}
	for range n {
		node = back[node]
	}
	return node, true
}

// trace describes how a state was reached.
func (m *model) trace(from []visited, to int32) string {
	var actions []visited // the last first
	for i := to; i > 0; i = from[i].parent {
		actions = append(actions, from[i])
	}
	var b strings.Builder
	s := m.start()
	fmt.Fprintf(&b, "%4s %s\n", "", s.String())
	for i := len(actions) - 1; i >= 0; i-- {
		// The same action may lead to several states: take the one from which the next is possible.
		s = m.follow(s, actions[:i+1])
		fmt.Fprintf(&b, "%3d. %s\n     %s\n", len(actions)-i, actions[i].action, s.String())
	}
	return b.String()
}

// follow returns the state after the last of the actions from which the others are possible.
func (m *model) follow(s state, actions []visited) state {
	last := len(actions) - 1
	for _, to := range m.next(&s, nil) {
		if to.action == actions[last].action && m.possible(to.state, actions[:last]) {
			return to.state
		}
	}
	panic("fleetmodel: trace cannot be repeated")
}

// possible reports whether the actions can happen, the last first.
func (m *model) possible(s state, actions []visited) bool {
	last := len(actions) - 1
	if last < 0 {
		return true
	}
	for _, to := range m.next(&s, nil) {
		if to.action == actions[last].action && m.possible(to.state, actions[:last]) {
			return true
		}
	}
	return false
}

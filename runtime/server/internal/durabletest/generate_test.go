package durabletest

import (
	"math/rand/v2"
	"time"
)

// generator makes random programs.
type generator struct {
	*rand.Rand
	left int // number of further operations
}

// program returns a random program. The same seed makes the same program.
func program(seed uint64) *node {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	g.left = 2 + g.IntN(7)
	n := g.seq(3)
	for g.left > 0 && g.IntN(3) > 0 {
		n.body = append(n.body, g.statement(3))
	}
	return n.number()
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// duration returns a random duration of at most max. No two durations of a program are equal, so
// that the order of events does not depend on chance.
func (g *generator) duration(max time.Duration) time.Duration {
	return time.Duration(1+g.Int64N(int64(max/time.Millisecond)))*time.Millisecond + time.Duration(1+g.Int64N(999))*time.Microsecond
}

func (g *generator) seq(depth int) *node {
	n := &node{kind: seq}
	for range 1 + g.IntN(3) {
		n.body = append(n.body, g.statement(depth))
	}
	return n
}

func (g *generator) statement(depth int) *node {
	if depth == 0 || g.left <= 1 || g.chance(55) {
		return g.operation()
	}
	block := func() *node { return g.seq(depth - 1) }
	switch p := g.IntN(100); {
	case p < 26:
		return &node{kind: all, body: g.blocks(depth)}
	case p < 36:
		return &node{kind: beside, quits: g.chance(50), body: g.blocks(depth)}
	case p < 54:
		return &node{kind: fallback, body: []*node{block(), block()}}
	case p < 62:
		return &node{kind: retry, n: 2 + g.IntN(2), body: []*node{block()}}
	case p < 70:
		return &node{kind: loop, n: 2 + g.IntN(2), body: []*node{block()}}
	case p < 80:
		return &node{kind: limited, within: g.duration(700 * time.Millisecond), cancels: g.chance(25), body: []*node{block()}}
	case p < 90:
		return &node{kind: compensated, body: []*node{g.step(), g.compensation(), block()}}
	case p < 98:
		return &node{kind: seq, body: []*node{g.register(), g.step(), block()}}
	default:
		g.left -= 2
		return &node{kind: overlap, body: []*node{{kind: step, takes: 5*time.Millisecond + g.duration(40*time.Millisecond)}, {kind: sleep, takes: g.duration(time.Second)}}}
	}
}

// compensation returns what a handler does in a defer.
func (g *generator) compensation() *node {
	switch p := g.IntN(100); {
	case p < 60:
		return g.step()
	case p < 80:
		return g.choose()
	case p < 92:
		return g.operation()
	default:
		return &node{kind: panics}
	}
}

// blocks returns the functions of concurrent branches.
func (g *generator) blocks(depth int) (body []*node) {
	for range 2 + g.IntN(2) {
		body = append(body, g.seq(depth-1))
	}
	return body
}

func (g *generator) operation() *node {
	switch p := g.IntN(100); {
	case p < 41:
		return g.step()
	case p < 54:
		g.left--
		n := &node{kind: sleep, takes: g.duration(time.Second)}
		if g.chance(15) {
			n.within, n.cancels = g.duration(time.Second), g.chance(20)
		}
		return n
	case p < 80:
		g.left--
		n := &node{kind: ask, thinks: g.duration(500 * time.Millisecond), fails: g.chance(15), common: g.chance(25)}
		if g.chance(30) {
			n.within, n.cancels = g.duration(500*time.Millisecond), g.chance(20)
		}
		return n
	case p < 88:
		return g.choose()
	case p < 93:
		g.left--
		n := &node{kind: await, common: g.chance(30), sends: g.sends()}
		if g.chance(20) {
			n.within, n.cancels = g.duration(700*time.Millisecond), g.chance(20)
		}
		return n
	case p < 96:
		return g.register()
	case p < 98:
		return &node{kind: fail}
	case p < 99:
		return &node{kind: garbled}
	default:
		return &node{kind: panics}
	}
}

func (g *generator) step() *node {
	g.left--
	n := &node{kind: step, takes: g.duration(40 * time.Millisecond), fails: g.chance(15), deaf: g.chance(30)}
	n.common = g.chance(20)
	if g.chance(20) {
		n.within, n.cancels = g.duration(40*time.Millisecond), g.chance(20)
	}
	switch p := g.IntN(100); {
	case p < 20:
		n.fails, n.attempts, n.failures = false, 1+g.IntN(4), g.IntN(5)
		n.backoff, n.final = g.duration(300*time.Millisecond), g.chance(20)
		if g.chance(20) {
			n.total = g.duration(500 * time.Millisecond)
		}
		if n.within > 0 {
			n.within = g.duration(500 * time.Millisecond)
		}
	case p < 24:
		n.fails, n.unencodable = false, true
	case p < 28:
		n.fails, n.panicking = false, true
	}
	return n
}

func (g *generator) choose() *node {
	g.left--
	n := &node{kind: choose}
	for range 1 + g.IntN(3) {
		switch p := g.IntN(100); {
		case p < 50:
			child := &node{kind: ask, thinks: g.duration(700 * time.Millisecond), fails: g.chance(15)}
			if g.chance(30) {
				child.looks = g.duration(3 * time.Millisecond)
			}
			n.body = append(n.body, child)
		case p < 75:
			n.body = append(n.body, &node{kind: after, takes: g.duration(700 * time.Millisecond)})
		default:
			n.body = append(n.body, &node{kind: signalled, common: g.chance(30), sends: g.sends()})
		}
	}
	if g.chance(20) {
		n.within, n.cancels = g.duration(700*time.Millisecond), g.chance(20)
	}
	return n
}

// sends returns the times at which a signal is sent.
func (g *generator) sends() (at []time.Duration) {
	for range 1 + g.IntN(3) {
		at = append(at, g.duration(time.Second))
	}
	return at
}

func (g *generator) register() *node {
	g.left--
	return &node{kind: register, takes: g.duration(20 * time.Millisecond), failures: max(0, g.IntN(5)-2), panicking: g.chance(30), selects: g.chance(30)}
}

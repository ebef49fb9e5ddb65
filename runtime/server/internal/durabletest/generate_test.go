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
	switch g.IntN(10) {
	case 0, 1, 2:
		n := &node{kind: all}
		for range 2 + g.IntN(2) {
			n.body = append(n.body, g.seq(depth-1))
		}
		return n
	case 3, 4:
		return &node{kind: fallback, body: []*node{block(), block()}}
	case 5:
		return &node{kind: retry, n: 2 + g.IntN(2), body: []*node{block()}}
	case 6:
		return &node{kind: loop, n: 2 + g.IntN(2), body: []*node{block()}}
	default:
		return &node{kind: compensated, body: []*node{g.step(), g.step(), block()}}
	}
}

func (g *generator) operation() *node {
	switch p := g.IntN(100); {
	case p < 45:
		return g.step()
	case p < 60:
		g.left--
		n := &node{kind: sleep, takes: g.duration(time.Second)}
		if g.chance(15) {
			n.within = g.duration(time.Second)
		}
		return n
	case p < 92:
		g.left--
		n := &node{kind: ask, thinks: g.duration(500 * time.Millisecond), fails: g.chance(15), common: g.chance(25)}
		if g.chance(30) {
			n.within = g.duration(500 * time.Millisecond)
		}
		return n
	case p < 98:
		return &node{kind: fail}
	default:
		return &node{kind: panics}
	}
}

func (g *generator) step() *node {
	g.left--
	n := &node{kind: step, takes: g.duration(40 * time.Millisecond), fails: g.chance(15), deaf: g.chance(30)}
	n.common = g.chance(20)
	if g.chance(20) {
		n.within = g.duration(40 * time.Millisecond)
	}
	return n
}

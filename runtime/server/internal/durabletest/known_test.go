package durabletest

import (
	"testing"
	"time"
)

// These constructors make programs by hand.

func do(body ...*node) *node           { return &node{kind: seq, body: body} }
func steps(takes time.Duration) *node  { return &node{kind: step, takes: takes} }
func asks(thinks time.Duration) *node  { return &node{kind: ask, thinks: thinks} }
func sleeps(takes time.Duration) *node { return &node{kind: sleep, takes: takes} }
func first(f, otherwise *node) *node   { return &node{kind: fallback, body: []*node{f, otherwise}} }
func branches(body ...*node) *node     { return &node{kind: all, body: body} }
func within(d time.Duration, n *node) *node {
	n.within = d
	return n
}
func failing(n *node) *node {
	n.fails = true
	return n
}
func deaf(n *node) *node {
	n.deaf = true
	return n
}
func common(n *node) *node {
	n.common = true
	return n
}
func again(attempts, failures int, n *node) *node {
	n.attempts, n.failures, n.backoff = attempts, failures, 100*ms
	return n
}
func unencodable(n *node) *node {
	n.unencodable = true
	return n
}
func panicking(n *node) *node {
	n.panicking = true
	return n
}
func selecting(n *node) *node {
	n.selects = true
	return n
}
func registers(failures int) *node {
	return &node{kind: register, takes: 3*ms + 41*time.Microsecond, failures: failures}
}
func goroutines(body ...*node) *node { return &node{kind: beside, body: body} }
func errgroup(body ...*node) *node   { return &node{kind: beside, quits: true, body: body} }
func block(within time.Duration, n *node) *node {
	return &node{kind: limited, within: within, body: []*node{n}}
}
func signals(sends ...time.Duration) *node { return &node{kind: await, sends: sends} }
func choose3(thinks, takes, sent time.Duration) *node {
	return &node{kind: choose, body: []*node{asks(thinks), {kind: after, takes: takes}, {kind: signalled, sends: []time.Duration{sent}}, asks(thinks + 50*ms)}}
}
func undo(f, u, rest *node) *node   { return &node{kind: compensated, body: []*node{f, u, rest}} }
func tries(n int, f *node) *node    { return &node{kind: retry, n: n, body: []*node{f}} }
func repeated(n int, f *node) *node { return &node{kind: loop, n: n, body: []*node{f}} }

const ms = time.Millisecond

// Programs that real handlers have, each of which has violated the model once.
func TestKnownHandlers(t *testing.T) {
	for _, row := range []struct {
		name    string
		program *node
	}{
		{"a fallback for an input request", do(first(asks(500*ms), steps(3*ms)), steps(5*ms))},
		{"a compensation in a defer", undo(steps(3*ms), steps(4*ms), do(asks(700*ms), steps(5*ms)))},
		{"a compensation that must happen", undo(steps(3*ms), steps(4*ms), do(sleeps(200*ms), failing(steps(5*ms))))},
		{"a compensation during a sleep", undo(steps(3*ms), steps(4*ms), do(sleeps(900*ms), steps(5*ms)))},
		{"a step with a timeout, and a fallback", do(first(within(5*ms, steps(30*ms)), steps(4*ms)), sleeps(300*ms), asks(100*ms), steps(7*ms))},
		{"a step that succeeds after its timeout", do(within(5*ms, deaf(steps(30*ms))), asks(100*ms), steps(7*ms))},
		{"an input request with a deadline and a default", do(first(within(150*ms, asks(400*ms)), steps(3*ms)), sleeps(700*ms), steps(4*ms))},
		{"an answer before the deadline", do(first(within(400*ms, asks(150*ms)), steps(3*ms)), sleeps(700*ms), steps(4*ms))},
		{"a sleep with a deadline", do(first(within(150*ms, sleeps(400*ms)), steps(3*ms)), asks(700*ms), steps(4*ms))},
		{"a step, and an input request at once", do(steps(1*ms), asks(900*ms), steps(2*ms))},
		{"an input request that is tried again", do(tries(3, asks(300*ms)), steps(2*ms))},
		{"a step, and a long sleep", do(steps(3*ms), sleeps(900*ms))},
		{"steps of one name in branches", do(branches(do(sleeps(7*ms), common(steps(2*ms))), do(common(steps(3*ms)), asks(90*ms)), common(steps(30*ms))), sleeps(400*ms), steps(5*ms))},
		{"a step that ends while the server shuts down", do(deaf(steps(900*ms)), steps(2*ms))},
		{"branches that wait for different things", do(branches(do(sleeps(200*ms), steps(21*ms)), do(steps(29*ms), asks(313*ms), steps(22*ms), asks(409*ms), asks(267*ms))), steps(3*ms))},
		{"something else than a sleep that the round interrupts", do(branches(first(sleeps(800*ms), asks(450*ms)), asks(110*ms)), steps(3*ms))},
		{"something else than a step that the round prevents", do(branches(do(asks(90*ms), first(steps(5*ms), asks(450*ms))), do(asks(90*ms), asks(110*ms))), steps(3*ms))},
		{"steps, forms, branches and a sleep", do(steps(4*ms), asks(30*ms), branches(steps(5*ms), steps(6*ms)), sleeps(20*ms), steps(7*ms))},
		{"the same input request again and again", do(repeated(3, common(asks(90*ms))), steps(2*ms))},
		{"a panic of a branch", do(branches(do(asks(50*ms), &node{kind: panics}), do(sleeps(90*ms), steps(4*ms))))},
		{"a step that is tried again", do(again(4, 2, steps(5*ms)), asks(300*ms), steps(2*ms))},
		{"a step that is tried again in vain", do(first(again(3, 3, steps(5*ms)), steps(4*ms)), asks(300*ms))},
		{"a step that is tried again until a deadline", do(first(within(170*ms, again(9, 9, steps(5*ms))), steps(4*ms)), asks(300*ms))},
		{"undos of a call that fails", do(registers(1), steps(3*ms), branches(do(registers(0), steps(7*ms)), asks(90*ms)), registers(0), failing(steps(2*ms)))},
		{"undos of a call that waits", do(registers(0), steps(3*ms), asks(300*ms), registers(2), sleeps(500*ms), steps(2*ms))},
		{"undos of a call that panics", do(registers(0), asks(90*ms), &node{kind: panics})},
		{"undos of a call whose result cannot be sent", do(registers(1), steps(3*ms), asks(90*ms), &node{kind: garbled}, steps(2*ms))},
		{"branches of goroutines", do(goroutines(do(steps(3*ms), asks(90*ms)), do(sleeps(200*ms), steps(4*ms)), do(steps(6*ms), sleeps(40*ms))), steps(5*ms))},
		{"branches of an errgroup", do(registers(0), errgroup(do(asks(90*ms), asks(70*ms)), do(asks(130*ms), steps(20*ms)), do(asks(170*ms), choose3(400*ms, 700*ms, 500*ms)), do(sleeps(400*ms), steps(6*ms))), steps(5*ms))},
		{"branches with a deadline", do(first(block(150*ms, branches(do(steps(20*ms), asks(400*ms)), do(sleeps(90*ms), deaf(steps(100*ms))))), steps(3*ms)), steps(4*ms))},
		{"a result that JSON cannot hold", do(first(unencodable(steps(3*ms)), steps(4*ms)), asks(200*ms))},
		{"the first of several events", do(steps(3*ms), choose3(400*ms, 700*ms, 500*ms), steps(2*ms), choose3(900*ms, 300*ms, 500*ms), choose3(900*ms, 700*ms, 1500*ms), steps(4*ms))},
		{"the first of several events, with a deadline", do(first(within(150*ms, choose3(400*ms, 700*ms, 600*ms)), steps(3*ms)), asks(90*ms), steps(4*ms))},
		{"signals that come early and late", do(signals(10*ms, 20*ms, 900*ms), steps(30*ms), common(signals(250*ms)), sleeps(300*ms), common(signals(20*ms)), branches(common(signals()), common(signals(500*ms)), asks(200*ms)))},
		{"a step that panics, and undos", do(registers(0), steps(3*ms), asks(90*ms), panicking(steps(4*ms)))},
		{"a compensation in a defer that waits", undo(steps(3*ms), choose3(300*ms, 400*ms, 350*ms), do(asks(90*ms), failing(steps(5*ms))))},
		{"a panic in a defer", do(registers(0), undo(steps(3*ms), &node{kind: panics}, do(asks(90*ms), sleeps(200*ms), failing(steps(5*ms)))))},
		{"undos that panic and wait", do(selecting(panicking(registers(2))), steps(3*ms), asks(90*ms), failing(steps(2*ms)))},
		{"operations that overlap", do(steps(3*ms), asks(90*ms), &node{kind: overlap, body: []*node{steps(20 * ms), sleeps(50 * ms)}})},
	} {
		t.Run(row.name, func(t *testing.T) {
			check := func(f fate, w *world) {
				if len(w.violations) > 0 && !t.Failed() {
					report(t, *seed, w)
				}
			}
			p := row.program.number()
			fates(t, p, *seed, 7, 60, check)
			for at := 1; at < 30; at++ { // the store is slow when the handler runs again
				f := fate{mode: taskInSession, parks: true, disturbances: []disturbance{{act: delay, at: at, length: 3, reads: true}}}
				check(f, play(t, p, f))
			}
			for _, id := range p.steps(removed) { // the handler of the next process lacks a step
				for at := 1; at < 6; at++ {
					f := fate{mode: taskInSession, change: removed, changed: id, disturbances: []disturbance{{act: crashAfter, at: at}}}
					check(f, play(t, p, f))
				}
			}
			for at := 1; at < 10; at++ { // the handler learns of a shutdown while it records something
				for _, what := range []act{shutBefore, shutAfter} {
					f := fate{mode: taskInSession, disturbances: []disturbance{{act: what, at: at}}}
					check(f, play(t, p, f))
				}
			}
			for range 50 { // the requestor cancels, and goroutines act at the same moment
				f := fate{mode: promoted, cancel: 100 * ms}
				check(f, play(t, p, f))
			}
		})
	}
}

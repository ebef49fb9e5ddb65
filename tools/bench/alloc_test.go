package main

import (
	"testing"

	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// promises are the maximum numbers of allocations per message, and the targets. Lower them when the
// codec improves.
//
// The target is zero for decoding the envelope and for encoding into a sufficiently large buffer.
// It is three for decoding a small message (the value, its text, its optional members), and three
// for each element of a list, independent of the number of fields. Minus one means that there is no
// target.
var promises = []struct {
	message                  string
	decode, envelope, encode int64
	target                   int64 // for decode; it is 0 for the other two
}{
	{"tools-call", 4, 6, 0, 3},
	{"create-task-result", 6, 5, 0, 3},
	{"task", 3, 0, 0, 3},
	{"tasks-list", 19, 5, 0, 3 + 50*3},
	{"tool-result", 14, 5, 0, 3 + 2*3},
	{"tool-result-text", 30, 5, 0, 3 + 3},
	{"tool-result-image", 11, 5, 0, 3 + 2*3},
	{"tools-list", 940, 6, 250, 3 + 50*3},
	{"sampling", 98, 6, 0, 3 + 20*3},
	{"resources-list", 108, 4, 0, 3 + 30*3},
	{"prompts-get", 19, 5, 0, 3 + 6*3},
	{"elicitation", 49, 6, 8, 3 + 9*3},
	{"initialize", 24, 5, 0, -1},
	{"initialize-result", 18, 4, 0, -1},
	{"progress", 5, 5, 0, 3},
	{"deep", 4, 11, 0, 3},
	{"unknown-members", 94, 14, 25, -1},
	{"non-ascii", 7, 4, 0, 3 + 3},
	{"non-ascii-escaped", 7, 4, 0, 3 + 3},
	{"result-first", 9, 4, 0, 3 + 3},
	{"keys-reversed", 116, 6, 30, 3 + 5*3},
	{"indented", 116, 6, 30, 3 + 5*3},
}

func TestMCPWireAllocatesNoMoreThanPromised(t *testing.T) {
	for i, m := range messages.All() {
		if i >= len(promises) || promises[i].message != m.Name {
			t.Fatalf("missing or misplaced promise for %s", m.Name)
		}
		p := promises[i]
		e, err := enterMCPWire(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []struct {
			name             string
			run              func() error
			promised, target int64
		}{
			{"decode", e.decode, p.decode, p.target},
			{"envelope", e.envelope, p.envelope, 0},
			{"encode", e.encode, p.encode, 0},
		} {
			if o.run == nil { // a task has no envelope
				continue
			}
			switch got, _ := allocations(o.run, 20); {
			case got > o.promised:
				t.Errorf("%s/%s: %d allocations, want at most %d", o.name, m.Name, got, o.promised)
			case got < o.promised:
				t.Logf("%s/%s: %d allocations; lower the promise, which is %d", o.name, m.Name, got, o.promised)
			case got > o.target && o.target >= 0:
				t.Logf("%s/%s: %d allocations, the target is %d", o.name, m.Name, got, o.target)
			}
		}
	}
}

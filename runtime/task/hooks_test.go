package task

import (
	"context"
	"reflect"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
)

// Without an Observer, the creation of a task and its runs have no allocation for it.
func TestNoObserverAllocatesNothing(t *testing.T) {
	m, r := new(Manager), &Record{ID: "one", Method: "tools/call", Trace: "x"}
	work := Work(func(context.Context, *Run) (codec.Encoder, error) { return nil, nil })
	var observed Work
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		m.trace(ctx)
		observed = m.observed(r, work)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if reflect.ValueOf(observed).Pointer() != reflect.ValueOf(work).Pointer() {
		t.Error("the work is wrapped")
	}
}

package streamable

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// newOutflow returns an outflow for max bytes with an outlet that has a connection.
func newOutflow(max int) (f *outflow, o *outlet, k *sink, end func()) {
	done := make(chan struct{})
	f = &outflow{max: max, stall: time.Second, done: done, queued: guard.NewMeter(guard.NewRoom(1<<20), 0)}
	k = newSink(f, httptest.NewRecorder())
	f.add(k)
	return f, &outlet{sink: k}, k, func() { close(done) }
}

func TestOutflowReservesRoomInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, o, k, _ := newOutflow(100)
		room, ticket, err := f.reserve(t.Context(), o, 100)
		if room != 100 || ticket != 0 || err != nil {
			t.Fatalf("got %d, %d, %v", room, ticket, err)
		}
		var got []int
		for i, n := range []int{90, 5} { // the second would fit as soon as the first has some room
			go func() {
				_, ticket, err := f.reserve(t.Context(), o, n)
				if err != nil {
					t.Error(err)
				}
				got = append(got, i)
				f.releaseTicket(o, ticket)
			}()
			synctest.Wait()
		}
		f.release(50)
		synctest.Wait()
		if got != nil {
			t.Errorf("%v did not wait", got)
		}
		f.release(50)
		synctest.Wait()
		if !slices.Equal(got, []int{0, 1}) || f.pending != 95 {
			t.Errorf("order %v, %d bytes pending", got, f.pending)
		}
		f.release(95)
		f.remove(o, k)
		if f.pending != 0 || o.sink != nil || f.sinks != nil {
			t.Errorf("left behind: %d bytes, %v, %v", f.pending, o.sink, f.sinks)
		}
	})
}

func TestOutflowCountsEventsUntilTheyAreWritten(t *testing.T) {
	f, o, k, _ := newOutflow(100)
	if full, ok := f.push(o, Event{Number: 1, Text: make([]byte, 50)}, 0); !ok || full != k {
		t.Errorf("got %v, %v", full, ok)
	}
	if _, ok := f.push(o, Event{Number: 2, Last: true}, 0); !ok || !f.isOver(o) {
		t.Error("the last event does not end the stream")
	}
	events, state := k.take()
	if len(events) != 2 || state != sinkOver || f.pending != 50+2*eventOverhead {
		t.Errorf("%d events, state %d, %d bytes pending", len(events), state, f.pending)
	}
	if !f.wrote(o, k, 50+2*eventOverhead, 2) || f.taken(o) != 2 || f.pending != 0 {
		t.Errorf("taken to %d, %d bytes pending", f.taken(o), f.pending)
	}
}

func TestOutflowCutsAConnectionThatAcceptsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, o, k, _ := newOutflow(100)
		full, _ := f.push(o, Event{Number: 1, Text: make([]byte, 100)}, 0)
		start := time.Now()
		go func() {
			time.Sleep(900 * time.Millisecond)
			f.moved.Add(1)
		}()
		f.waitForRoom(t.Context(), full)
		if took := time.Since(start); took != 2*time.Second || !k.cut || f.pending != 0 { // the progress is noticed after one second
			t.Errorf("after %v: cut %v, %d bytes pending", took, k.cut, f.pending)
		}
		if _, ok := f.push(o, Event{Number: 2}, 0); ok {
			t.Error("an event was passed to the connection that was cut")
		}
	})
}

func TestOutflowStopsWaiting(t *testing.T) {
	for name, want := range map[string]error{
		"when the connection ends":         transport.ErrClosed,
		"when the context ends":            context.Canceled,
		"when other connections are stuck": transport.ErrStalled,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, o, _, end := newOutflow(100)
				f.push(o, Event{Number: 1, Text: make([]byte, 100)}, 0)
				other := &outlet{sink: newSink(f, httptest.NewRecorder())}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch want {
				case transport.ErrClosed:
					time.AfterFunc(time.Millisecond, end)
				case context.Canceled:
					time.AfterFunc(time.Millisecond, cancel)
				}
				_, _, err := f.reserve(ctx, other, 1)
				if !errors.Is(err, want) || len(other.waiting) != 0 {
					t.Errorf("got %v, want %v; %d tickets left", err, want, len(other.waiting))
				}
			})
		})
	}
}

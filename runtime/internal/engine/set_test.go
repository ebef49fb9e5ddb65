package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
)

// exchange is an Exchange whose Reply records what happens.
type exchange struct {
	engine.Exchange
	id jsonrpc.ID

	mu     sync.Mutex
	events []string
	unread chan struct{} // Answer waits until it is closed; nil for not at all
	full   chan struct{} // the same for Send
}

func newExchange(id int64, size int) *exchange {
	x := &exchange{id: codec.IntScalar(id)}
	x.Size, x.Reply = size, x
	return x
}

func (x *exchange) ID() jsonrpc.ID { return x.id }

func (x *exchange) Send(_ context.Context, text []byte) error {
	if x.full != nil {
		<-x.full
	}
	x.record("send " + string(text))
	return nil
}

func (x *exchange) Answer(_ context.Context, text []byte, failed *jsonrpc.Error) error {
	if x.unread != nil {
		<-x.unread
	}
	switch {
	case failed != nil:
		x.record(fmt.Sprint("error ", failed.Code))
	case text == nil:
		x.record("no answer")
	default:
		x.record("answer " + string(text))
	}
	return nil
}

func (x *exchange) Cancel(cause error) {
	if cause != nil {
		x.record("cancel: " + cause.Error())
	}
}

// Finish and the other methods of engine.Progress.
type reports struct{ x *exchange }

func (r reports) Finish()  { r.x.record("last report") }
func (r reports) Stop()    { r.x.record("no more reports") }
func (r reports) Silence() { r.x.record("silence") }

func (x *exchange) record(event string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.events = append(x.events, event)
}

func (x *exchange) expect(t *testing.T, want ...string) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if diff := cmp.Diff(want, x.events); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// interrupt ends an exchange without a goroutine of its own.
func interrupt(x *engine.Exchange, reason string) {
	x.Interrupt(reason, func(release func()) bool { release(); return true })
}

func enter(t *testing.T, s *engine.Set, all ...*exchange) {
	t.Helper()
	for _, x := range all {
		if err := s.Enter(&x.Exchange); err != nil {
			t.Fatal(err)
		}
	}
}

// idle reports whether nothing is counted.
func idle(a *engine.Activity) bool {
	select {
	case <-a.Done():
		return true
	default:
		return false
	}
}

func TestSetRejectsAboveItsLimits(t *testing.T) {
	for _, c := range []struct {
		set  *engine.Set
		id   int64
		size int
		want string
	}{
		{set: &engine.Set{}, id: 1, want: "a request with this id"},
		{set: &engine.Set{SharesIDs: true}, id: 1},
		{set: &engine.Set{MaxRequests: 1}, id: 2, want: "overloaded: 1 requests"},
		{set: &engine.Set{MaxRequests: 1, SharesIDs: true}, id: 1, want: "overloaded: 1 requests"},
		{set: &engine.Set{MaxBytes: 150}, id: 2, size: 51, want: "overloaded: requests of 100 bytes"},
		{set: &engine.Set{MaxBytes: 150}, id: 2, size: 50},
	} {
		c.set.Activity = new(engine.Activity)
		enter(t, c.set, newExchange(1, 100))
		err := c.set.Enter(&newExchange(c.id, c.size).Exchange)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s", c.want, got)
		}
	}
}

// A single request may be longer than all of them together may be.
func TestSetAdmitsLongRequestAlone(t *testing.T) {
	s := engine.Set{Activity: new(engine.Activity), MaxBytes: 10}
	enter(t, &s, newExchange(1, 100))
}

// What an exchange holds is given back when the transport has accepted the answer, and not before.
func TestPlaceIsGivenBackAfterAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a engine.Activity
		s := engine.Set{Activity: &a, MaxRequests: 1, MaxBytes: 100}
		x, next := newExchange(1, 60), newExchange(2, 60)
		x.unread = make(chan struct{})
		enter(t, &s, x)
		go x.Finish(t.Context(), []byte("1"), nil)
		synctest.Wait()
		if err := s.Enter(&next.Exchange); jsonrpc.CodeOf(err) != engine.CodeOverloaded || idle(&a) {
			t.Errorf("while the answer is pending: %v, idle %t", err, idle(&a))
		}
		close(x.unread)
		synctest.Wait()
		if !idle(&a) {
			t.Error("the answer is counted after the transport has accepted it")
		}
		enter(t, &s, next)
	})
}

// While answers of MaxBytes are pending, further ones are replaced by an error.
func TestAnswersAreReplacedWhilePeerDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := engine.Set{Activity: new(engine.Activity), MaxBytes: 10}
		x, next := newExchange(1, 1), newExchange(2, 1)
		x.unread = make(chan struct{})
		enter(t, &s, x, next)
		go x.Finish(t.Context(), make([]byte, 10), nil)
		synctest.Wait()
		if sent := next.Finish(t.Context(), []byte("2"), nil); sent == nil || sent.Code != engine.CodeOverloaded {
			t.Errorf("sent: %v", sent)
		}
		next.expect(t, "error -32050")
		close(x.unread)
	})
}

func TestFirstOfCancellationAndAnswerWins(t *testing.T) {
	s := engine.Set{Activity: new(engine.Activity)}
	x, answered, kept := newExchange(1, 1), newExchange(2, 1), newExchange(3, 1)
	enter(t, &s, x, answered, kept)
	x.Progress(func() engine.Progress { return reports{x} })
	if got := s.Cancel(x.id); got != &x.Exchange {
		t.Fatal("the exchange was not found")
	} else {
		interrupt(got, "enough")
	}
	x.Notify(t.Context(), []byte("late"))
	x.Finish(t.Context(), []byte("late"), nil)
	x.expect(t, "silence", "no answer", "cancel: session: request cancelled by the peer: enough")

	answered.Finish(t.Context(), []byte("2"), nil)
	if s.Cancel(answered.id) != nil {
		t.Error("an answered exchange was cancelled")
	}
	answered.expect(t, "answer 2")

	if !kept.Keep() || s.Cancel(kept.id) != nil {
		t.Error("a kept exchange was cancelled")
	}
	if s.Cancel(codec.IntScalar(4)) != nil {
		t.Error("an unknown exchange was cancelled")
	}
}

// The last report comes before the answer, and no notification after it.
func TestNoNotificationFollowsAnswer(t *testing.T) {
	s := engine.Set{Activity: new(engine.Activity)}
	x := newExchange(1, 1)
	enter(t, &s, x)
	x.Progress(func() engine.Progress { return reports{x} })
	x.Notify(t.Context(), []byte("a"))
	x.Finish(t.Context(), []byte("1"), nil)
	x.Notify(t.Context(), []byte("b"))
	x.expect(t, "send a", "last report", "answer 1")
}

// A notification that is being written delays the answer.
func TestAnswerWaitsForNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := engine.Set{Activity: new(engine.Activity)}
		x := newExchange(1, 1)
		x.full = make(chan struct{})
		enter(t, &s, x)
		go x.Notify(t.Context(), []byte("a"))
		synctest.Wait()
		go x.Finish(t.Context(), []byte("1"), nil)
		runtime.Gosched() // a goroutine that waits for a mutex is not durably blocked
		close(x.full)
		synctest.Wait()
		x.expect(t, "send a", "answer 1")
	})
}

// The ids of a lost session are free at once, although its handlers are running.
func TestWithdrawnExchangesFreeTheirIDs(t *testing.T) {
	var a engine.Activity
	s := engine.Set{Activity: &a, MaxRequests: 3}
	lost, kept, current := newExchange(1, 1), newExchange(2, 1), newExchange(3, 1)
	lost.Session, kept.Session, current.Session = 1, 1, 2
	kept.Kept = true
	enter(t, &s, lost, kept, current)
	want := map[*engine.Exchange]bool{&lost.Exchange: true, &kept.Exchange: false}
	if got := s.Withdraw(1); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	again := newExchange(1, 1)
	if err := s.Enter(&again.Exchange); jsonrpc.CodeOf(err) != engine.CodeOverloaded {
		t.Errorf("a lost exchange does not count: %v", err)
	}
	lost.Finish(t.Context(), []byte("1"), nil)
	lost.expect(t)
	enter(t, &s, again)
}

func TestShutdownEndsWhatOnlyWaits(t *testing.T) {
	s := engine.Set{Activity: new(engine.Activity)}
	waits, works, asks, late := newExchange(1, 1), newExchange(2, 1), newExchange(3, 1), newExchange(4, 1)
	enter(t, &s, waits, works, asks, late)
	waits.Yield()
	asks.Yield()
	asks.BeginAsking()
	s.Shutdown()
	asks.expect(t)
	asks.EndAsking()
	late.Yield()
	works.expect(t)
	for _, x := range []*exchange{waits, asks, late} {
		x.expect(t, "cancel: "+engine.Closing().Error())
	}
	if err := s.Enter(&newExchange(5, 1).Exchange); jsonrpc.CodeOf(err) != engine.CodeClosing {
		t.Errorf("after Shutdown: %v", err)
	}
}

func TestAbandonAnswersAll(t *testing.T) {
	var a engine.Activity
	s := engine.Set{Activity: &a}
	x := newExchange(1, 1)
	enter(t, &s, x)
	x.Progress(func() engine.Progress { return reports{x} })
	s.Abandon(t.Context(), errors.New("the end"))
	x.Notify(t.Context(), []byte("late"))
	x.Finish(t.Context(), []byte("late"), nil)
	x.expect(t, "cancel: the end", "no more reports", "error -32051")
	if !idle(&a) {
		t.Error("the exchange is counted after its handler has returned")
	}
}

// Progress of an exchange that has ended is not reported. It is made without the lock of the Set.
func TestNoProgressAfterEnd(t *testing.T) {
	s := engine.Set{Activity: new(engine.Activity)}
	x := newExchange(1, 1)
	enter(t, &s, x)
	x.Finish(t.Context(), []byte("1"), nil)
	x.Progress(func() engine.Progress {
		s.Hold(0) // takes the lock
		return reports{x}
	})
	x.expect(t, "answer 1", "silence")
}

// Notifications have no answer, and leave nothing in the Set. Nothing is sent for them after their
// handler has returned.
func TestNotificationsLeaveTheirSet(t *testing.T) {
	var a engine.Activity
	s := engine.Set{Activity: &a, SharesIDs: true, MaxRequests: 1}
	for range 3 {
		x := newExchange(0, 1)
		enter(t, &s, x)
		x.Notify(t.Context(), []byte("a"))
		x.Progress(func() engine.Progress { return reports{x} })
		x.End()
		x.Notify(t.Context(), []byte("late"))
		x.expect(t, "send a", "last report")
	}
	if !idle(&a) {
		t.Error("notifications are counted after their handler has returned")
	}
}

func TestCloseEndsAllContexts(t *testing.T) {
	s := engine.Set{Activity: new(engine.Activity), SharesIDs: true}
	x, y := newExchange(1, 1), newExchange(1, 1)
	enter(t, &s, x, y)
	s.Close(errors.New("the end"))
	x.expect(t, "cancel: the end")
	y.expect(t, "cancel: the end")
}

// Error data that is no JSON is left out, so that the peer gets a response.
func TestEncodeErrorLeavesOutInvalidData(t *testing.T) {
	got := string(engine.EncodeError(codec.IntScalar(1), &jsonrpc.Error{Code: 5, Message: "m", Data: []byte("{")}))
	if want := `{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"m"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

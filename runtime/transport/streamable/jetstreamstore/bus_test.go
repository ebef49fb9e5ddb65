package jetstreamstore_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/natstest"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable/jetstreamstore"
)

var _ server.Bus = (*jetstreamstore.Bus)(nil)

// Messages reach all subscribers until they stop. Each is told that messages may be lost when the
// connection was broken.
func TestBus(t *testing.T) {
	servers := natstest.Run(t, 1)
	a, b := servers.Connect(t), servers.Connect(t)
	received := make(chan string, 100)
	subscribe := func(name string, bus *jetstreamstore.Bus) (stop func()) {
		t.Helper()
		stop, err := bus.Subscribe(func(message []byte) {
			if message == nil {
				message = []byte("lost")
			}
			received <- name + " " + string(message)
		})
		if err != nil {
			t.Fatal(err)
		}
		return stop
	}
	expect := func(want ...string) {
		t.Helper()
		got := map[string]bool{}
		for range want {
			got[<-received] = true
		}
		for _, w := range want {
			if !got[w] {
				t.Errorf("received %v, want %q", got, want)
			}
		}
	}
	busA, busB := jetstreamstore.NewBus(a, ""), jetstreamstore.NewBus(b, jetstreamstore.DefaultBusSubject)
	stopA, stopB := subscribe("a", busA), subscribe("b", busB)
	other := subscribe("other", jetstreamstore.NewBus(a, "other"))
	defer other()
	for _, nc := range []interface{ Flush() error }{a, b} { // the subscriptions have reached the server
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := busA.Publish(t.Context(), []byte("one")); err != nil {
		t.Error(err)
	}
	expect("a one", "b one")
	other()
	if err := b.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	expect("b lost")
	stopB()
	if err := b.Flush(); err != nil {
		t.Error(err)
	}
	if err := busA.Publish(t.Context(), []byte("two")); err != nil {
		t.Error(err)
	}
	expect("a two")
	stopA()
	a.Close()
	if err := busA.Publish(t.Context(), []byte("three")); err == nil {
		t.Error("published over a closed connection")
	}
	if _, err := busA.Subscribe(func([]byte) {}); err == nil {
		t.Error("subscribed over a closed connection")
	}
	if len(received) > 0 {
		t.Errorf("also received %q", <-received)
	}
}

package jetstreamstore_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/jetstreamstore"
)

var _ server.Bus = (*jetstreamstore.Bus)(nil)

// Messages reach all subscribers until they stop. After the connection broke, each subscriber
// learns that messages may be lost.
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
			got[natstest.Receive(t, "a message arrived", received)] = true
		}
		for _, w := range want {
			if !got[w] {
				t.Errorf("received %v, want %q", got, want)
			}
		}
	}
	busA, busB := jetstreamstore.NewBus(a, ""), jetstreamstore.NewBus(b, "mcp-bus")
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

// Subscribers learn that messages may be lost if the connection of the sender breaks before the
// server has the messages.
func TestBusReportsUnconfirmedMessages(t *testing.T) {
	servers := natstest.Run(t, 1)
	a, link := servers.ConnectLinked(t)
	received := make(chan string, 100)
	bus, other := jetstreamstore.NewBus(a, ""), servers.Connect(t)
	for name, b := range map[string]*jetstreamstore.Bus{"a": bus, "b": jetstreamstore.NewBus(other, "")} {
		stop, err := b.Subscribe(func(message []byte) {
			if name == "b" {
				received <- string(message)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	if err := other.Flush(); err != nil { // the subscription has reached the server
		t.Fatal(err)
	}
	link.Cut()
	wait(t, "disconnect", func() bool { return !a.IsConnected() })
	if err := bus.Publish(t.Context(), []byte("one")); err != nil {
		t.Fatal(err)
	}
	link.Heal()
	for natstest.Receive(t, "the loss was reported", received) != "" {
	}
}

// A subscriber that is too slow learns that messages are lost, also after the last lost message.
func TestBusReportsDroppedMessages(t *testing.T) {
	servers := natstest.Run(t, 1)
	nc := servers.Connect(t)
	begun, release, lost := make(chan bool, 1), make(chan bool), make(chan bool, 1)
	stop, err := jetstreamstore.NewBus(nc, "").Subscribe(func(message []byte) {
		if message == nil {
			select {
			case lost <- true:
			default:
			}
			return
		}
		select {
		case begun <- true:
		default:
		}
		<-release
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := nc.Flush(); err != nil { // the subscription has reached the server
		t.Fatal(err)
	}
	sender := servers.Connect(t)
	bus := jetstreamstore.NewBus(sender, "")
	for range 10_000 {
		if err := bus.Publish(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := sender.Flush(); err != nil {
		t.Fatal(err)
	}
	natstest.Receive(t, "a message arrived", begun)
	if err := nc.Flush(); err != nil { // the connection has received all
		t.Fatal(err)
	}
	close(release)
	natstest.Receive(t, "the loss was reported", lost)
}

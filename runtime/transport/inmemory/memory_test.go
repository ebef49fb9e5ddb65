package inmemory_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/internal/ability"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/transporttest"
)

func TestPairKeepsTransportContract(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, stall time.Duration, queue int) transporttest.Ends {
		a, b := inmemory.Pair(inmemory.Options{StallTimeout: stall, MaxQueue: queue})
		return transporttest.Ends{A: a, B: b}
	})
}

// wrapped wraps a connection, as a type that overrides Read does.
type wrapped struct{ transport.HalfCloser }

func TestPushRejectsWrappedConn(t *testing.T) {
	a, b := inmemory.Pair(inmemory.Options{})
	var got []string
	take := func(m transport.Message, err error) {
		if err != nil {
			got = append(got, err.Error())
			return
		}
		got = append(got, string(m.Text))
	}
	if b.(ability.Pusher).Push(&wrapped{b}, take) {
		t.Error("messages bypass a wrapper of the end")
	}
	if err := a.Write(t.Context(), transport.Message{Text: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if !b.(ability.Pusher).Push(b, take) {
		t.Fatal("Push returned false for the end itself")
	}
	if err := a.Write(t.Context(), transport.Message{Text: []byte("2")}); err != nil {
		t.Fatal(err)
	}
	a.Close()
	b.Close() // waits until take has received the end
	if want := []string{"1", "2", transport.ErrClosed.Error()}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

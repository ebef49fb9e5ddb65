package natstest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/task/jetstream/natstest"
)

// A stream of three replicas survives the loss of each node in turn.
func TestClusterSurvivesLossOfEachNode(t *testing.T) {
	c := natstest.Run(t, 3)
	js := c.JetStream(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(3) {
		leader := c.Leader("S")
		c.Kill(leader)
		for {
			// Without a leader, there is no answer.
			attempt, cancel := context.WithTimeout(ctx, time.Second)
			ack, err := js.Publish(attempt, "s", nil, jetstream.WithMsgID(fmt.Sprint(n)))
			cancel()
			if err == nil && ack.Sequence != n+1 {
				t.Errorf("message %d has sequence %d", n+1, ack.Sequence)
			}
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		c.Restart(leader)
		c.Current("S")
	}
}

func TestServerKeepsDataOverRestart(t *testing.T) {
	c := natstest.Run(t, 1)
	js := c.JetStream(t)
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	connected := js.Conn().StatusChanged(1) // nats.CONNECTED
	c.Kill(0)
	c.Restart(0)
	<-connected
	if m, err := s.GetMsg(t.Context(), 1); err != nil || string(m.Data) != "kept" {
		t.Errorf("read %v, %v", m, err)
	}
}

package natstest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
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
	natstest.Receive(t, "the connection was back", connected)
	if m, err := s.GetMsg(t.Context(), 1); err != nil || string(m.Data) != "kept" {
		t.Errorf("read %v, %v", m, err)
	}
}

// A server in a separate process keeps its data when it is killed, and stalls while it is paused.
func TestProcesses(t *testing.T) {
	c := natstest.RunProcesses(t, 3)
	js := c.JetStream(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(ctx, "s", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	leader := c.Leader("S")
	c.Pause(leader)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := s.GetMsg(short, 1); err == nil {
		t.Error("a paused leader answers")
	}
	c.Resume(leader)
	for i := range 3 {
		c.Kill(i)
		c.Restart(i)
	}
	c.Current("S")
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		m, err := s.GetMsg(attempt, 1)
		cancel()
		if err == nil {
			if string(m.Data) != "kept" {
				t.Errorf("read %q", m.Data)
			}
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// The time of a message is that of the clock of its server.
func TestStepClock(t *testing.T) {
	c := natstest.RunProcesses(t, 1)
	js := c.JetStream(t)
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range []struct{ step, want time.Duration }{{0, 0}, {time.Hour, time.Hour}, {-2 * time.Hour, -time.Hour}, {time.Hour, 0}} {
		c.StepClock(0, each.step)
		ack, err := js.Publish(t.Context(), "s", nil)
		if err != nil {
			t.Fatal(err)
		}
		m, err := s.GetMsg(t.Context(), ack.Sequence)
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Until(m.Time) - each.want; off.Abs() > time.Minute {
			t.Errorf("after a step of %v, the clock is off by %v", each.step, off)
		}
	}
}

func TestDisk(t *testing.T) {
	d := natstest.NewDisk(t, 1<<20)
	name := filepath.Join(d.Dir, "file")
	d.Fill()
	if err := os.WriteFile(name, []byte("x"), 0o600); err == nil {
		t.Error("a full disk accepts a file")
	}
	d.Free()
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Error(err)
	}
}

// The others go on without a node that is cut off from them. It catches up when it is back.
func TestIsolatedNodeCatchesUp(t *testing.T) {
	c := natstest.Run(t, 3)
	js := c.JetStream(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	config := jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3, AllowDirect: true}
	if _, err := js.CreateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	// try repeats f, which fails while there is no leader.
	try := func(f func(context.Context) error) {
		t.Helper()
		for {
			attempt, cancel := context.WithTimeout(ctx, time.Second)
			err := f(attempt)
			cancel()
			if err == nil {
				return
			}
			if ctx.Err() != nil {
				t.Fatal(err)
			}
		}
	}
	leader := c.Leader("S")
	majority, minority := c.JetStream(t, (leader+1)%3, (leader+2)%3), c.Connect(t, leader)
	c.Isolate(leader)
	try(func(ctx context.Context) error {
		_, err := majority.Publish(ctx, "s", []byte("meanwhile"), jetstream.WithMsgID("one"))
		return err
	})
	if s := c.Server(leader); s != nil && s.NumRoutes() > 0 {
		t.Errorf("the isolated node has %d routes", s.NumRoutes())
	}
	c.Rejoin(leader)
	try(func(ctx context.Context) error {
		m, err := minority.RequestWithContext(ctx, "$JS.API.DIRECT.GET.S.s", nil)
		if err == nil && string(m.Data) != "meanwhile" {
			err = fmt.Errorf("read %q", m.Data)
		}
		return err
	})
}

package jetstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/natstest"
)

// raw is JSON text that implements codec.Encoder.
type raw string

func (r raw) EncodeJSON(w *wire.Writer) { w.Raw(json.RawMessage(r)) }

// events records what a membership reports. Its channels have room for all of it.
type events struct {
	departed chan struct{}
	offered  chan string
}

func newEvents() (*events, task.Events) {
	e := &events{make(chan struct{}, 1000), make(chan string, 1000)}
	return e, task.Events{Departed: func() { e.departed <- struct{}{} }, Offered: func(id string) { e.offered <- id }}
}

func join(t *testing.T, s *jetstream.Store, name string, lease time.Duration) (task.Membership, *events) {
	t.Helper()
	e, callbacks := newEvents()
	m, err := s.Join(t.Context(), task.Member{Name: name, Tools: []string{name}, Lease: lease}, callbacks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Leave(context.Background()) })
	return m, e
}

func names(members []task.Member) (list []string) {
	for _, m := range members {
		list = append(list, m.Name)
	}
	slices.Sort(list)
	return list
}

func alive(t *testing.T, m task.Membership, id string) bool {
	t.Helper()
	yes, err := m.Alive(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return yes
}

func TestMembers(t *testing.T) {
	c := natstest.Run(t, 1)
	first := open(t, c.JetStream(t), jetstream.Options{})
	second := open(t, c.JetStream(t), jetstream.Options{Name: first.Name()})
	a, ea := join(t, first, "a", time.Minute)
	b, eb := join(t, second, "b", time.Minute)
	if got := names(b.Members()); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the second member sees %v", got)
	}
	// A third member makes the first one see changes: its own messages keep their order.
	if !alive(t, a, b.Self().ID) || !alive(t, b, a.Self().ID) || alive(t, a, "other") || alive(t, a, "*") {
		t.Error("the wrong members are alive")
	}
	if err := a.Offer(t.Context(), b.Self().ID, "task-1"); err != nil {
		t.Fatal(err)
	}
	if id := <-eb.offered; id != "task-1" {
		t.Errorf("offered %q", id)
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ea.departed
	if got := names(a.Members()); !slices.Equal(got, []string{"a"}) || alive(t, a, b.Self().ID) {
		t.Errorf("the first member sees %v after the second has left", got)
	}
}

// A member joins although an earlier attempt of its own to write its message is still under way, as
// after an acknowledgement that was lost.
func TestJoinWaitsForPendingWrite(t *testing.T) {
	c := natstest.Run(t, 1)
	nc := c.Connect(t)
	s := open(t, over(t, nc), jetstream.Options{})
	account := c.Server(0).GlobalAccount()
	subject := s.Name() + ".members.m.*"
	if _, err := nc.Subscribe("pending", func(m *nats.Msg) {
		account.RemoveMapping(subject)
		m.Respond([]byte(`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`))
	}); err != nil {
		t.Fatal(err)
	}
	if err := account.AddMapping(subject, "pending"); err != nil {
		t.Fatal(err)
	}
	a, _ := join(t, s, "a", time.Minute)
	if !alive(t, a, a.Self().ID) {
		t.Error("the member is not alive")
	}
}

// A member that does not reach the servers any longer notices the end of its lease itself. The
// others learn of it from the servers.
func TestLeaseEnds(t *testing.T) {
	c := natstest.Run(t, 1)
	first := open(t, c.JetStream(t), jetstream.Options{})
	a, ea := join(t, first, "a", time.Minute)
	nc := c.Connect(t)
	second := open(t, over(t, nc), jetstream.Options{Name: first.Name()})
	b, _ := join(t, second, "b", 2*time.Second)
	nc.Close()
	<-b.Expired()
	<-ea.departed
	if got := names(a.Members()); !slices.Equal(got, []string{"a"}) || alive(t, a, b.Self().ID) {
		t.Errorf("the first member sees %v", got)
	}
}

// follower returns the callbacks of a follower that writes to channels.
func follower() (changed chan struct{}, messages chan string, f task.Follower) {
	changed, messages = make(chan struct{}, 1000), make(chan string, 1000)
	return changed, messages, task.Follower{
		Changed: func() { changed <- struct{}{} },
		Message: func(data []byte) { messages <- string(data) },
	}
}

func TestFollow(t *testing.T) {
	c := natstest.Run(t, 1)
	first := open(t, c.JetStream(t), jetstream.Options{})
	second := open(t, c.JetStream(t), jetstream.Options{Name: first.Name()})
	a, _ := join(t, first, "a", time.Minute)
	b, _ := join(t, second, "b", time.Minute)
	r, err := first.Create(t.Context(), task.Record{ID: "x", Owner: "o", Status: mcp.TaskStatusWorking, Created: time.Now(), TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	changedA, _, fa := follower()
	changedB, messagesB, fb := follower()
	stopA, stopB := a.Follow("x", fa), b.Follow("x", fb)
	defer stopA()
	// A request over the connection follows the subscription.
	alive(t, a, "other")
	alive(t, b, "other")
	if r, err = first.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	<-changedB
	for i := range 3 {
		if err := a.Send(t.Context(), "x", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 {
		if got := <-messagesB; got != fmt.Sprint(i) {
			t.Errorf("message %d is %q", i, got)
		}
	}
	if _, err = second.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	<-changedA
	if len(changedA) > 0 {
		t.Error("a member is told of its own change")
	}
	if _, _, err := first.Sweep(t.Context(), time.Now().Add(2*time.Hour), 10); err != nil {
		t.Fatal(err)
	}
	<-changedB
	stopB()
	a.Send(t.Context(), "x", []byte("late"))
	alive(t, a, "other")
	alive(t, b, "other")
	if len(messagesB) > 0 {
		t.Error("a message arrived after the end of Follow")
	}
}

// manager returns a Manager of the fleet whose restartable work is work.
func manager(t *testing.T, s *jetstream.Store, name string, work task.Work) *task.Manager {
	t.Helper()
	m, err := task.New(t.Context(), task.Config{
		Store: s, Member: task.Member{Name: name, Lease: 3 * time.Second}, Logger: slog.New(slog.DiscardHandler),
		Recover: func(task.Record) task.Work { return work },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	return m
}

// A task whose process has lost its connection runs again in another one, from its journal, while
// the servers of the cluster restart.
func TestManagersTakeOver(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	c := natstest.Run(t, 3)
	first := open(t, c.JetStream(t), jetstream.Options{Replicas: 3})
	started := make(chan string, 10)
	var mu sync.Mutex
	recorded := 0
	work := func(name string) task.Work {
		return func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			entries, _, err := run.Journal(ctx)
			if err != nil {
				return nil, err
			}
			if len(entries) == 0 {
				mu.Lock()
				recorded++
				mu.Unlock()
				if err := run.Record(ctx, task.Entry{Key: "step", Occurrence: 1, Result: json.RawMessage(`1`)}); err != nil {
					return nil, err
				}
			}
			started <- name
			if name == "a" {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			answer, err := run.Ask(ctx, "k", 1, mcp.MethodElicitationCreate, raw(`{"message":"m"}`))
			if err != nil {
				return nil, err
			}
			return raw(`{"answer":` + string(answer) + `}`), nil
		}
	}
	nc := c.Connect(t)
	lost := open(t, over(t, nc), jetstream.Options{Name: first.Name(), Replicas: 3})
	a := manager(t, lost, "a", work("a"))
	b := manager(t, first, "b", work("b"))
	created, err := a.Create(t.Context(), task.Request{Principal: "alice", Method: mcp.MethodToolsCall, Restartable: true, Work: work("a")})
	if err != nil {
		t.Fatal(err)
	}
	if name := <-started; name != "a" {
		t.Fatalf("the task runs at %s", name)
	}
	nc.Close()
	c.Kill(c.Leader(first.Name() + "-0"))
	if name := <-started; name != "b" {
		t.Fatalf("the task runs at %s", name)
	}
	out, err := b.Result(t.Context(), "alice", created.TaskID, answers{})
	if err != nil || out.Error != nil {
		t.Fatal(out.Error, err)
	}
	if value, _ := codec.Member(out.Result, "answer"); string(value) != `"yes"` || recorded != 1 {
		t.Errorf("got %s after the step has run %d times", out.Result, recorded)
	}
}

// answers is a requestor that answers each input request.
type answers struct{}

func (answers) Call(context.Context, string, codec.Encoder) (json.RawMessage, error) {
	return json.RawMessage(`"yes"`), nil
}

func (answers) Notify(context.Context, string, codec.Encoder) error { return nil }

// over returns JetStream over a connection.
func over(t *testing.T, nc *nats.Conn) natsjs.JetStream {
	t.Helper()
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

package jetstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/contracttest"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// raw is JSON text that implements codec.Encoder.
type raw string

func (r raw) EncodeJSON(w *wire.Writer) { w.Raw(json.RawMessage(r)) }

func join(t *testing.T, s *jetstream.Store, name string, lease time.Duration) (m fleets.Membership[task.Member, task.Record], departed chan struct{}) {
	t.Helper()
	departed = make(chan struct{}, 1000)
	m, err := s.Join(t.Context(), task.Member{Name: name, Lease: lease}, fleets.Events{
		Departed: func() { departed <- struct{}{} }, Offered: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Leave(context.Background()) })
	return m, departed
}

func TestFleetOnOneNode(t *testing.T) {
	c := natstest.Run(t, 1)
	fleetSuite(t, c, jetstream.Options{Storage: natsjs.MemoryStorage, Partitions: 2})
}

func TestFleetOnThreeNodes(t *testing.T) {
	c := natstest.Run(t, 3)
	fleetSuite(t, c, jetstream.Options{Replicas: 3})
}

// A member joins although an earlier attempt of its own to write its message is still under way, as
// after an acknowledgement that was lost.
func TestJoinWaitsForPendingWrite(t *testing.T) {
	c := natstest.Run(t, 1)
	nc := c.Connect(t)
	s := open(t, over(t, nc), jetstream.Options{})
	c.Intercept(s.Name()+".members.l.*", func(m *nats.Msg, end func()) {
		end()
		m.Respond([]byte(`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`))
	})
	a, _ := join(t, s, "a", time.Minute)
	if alive, err := a.Alive(t.Context(), a.Self().ID); !alive {
		t.Errorf("the member is not alive: %v", err)
	}
}

// Leave does not wait for a renewal that the servers do not answer.
func TestLeaveWhileRenewing(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc := c.Connect(t)
	s := open(t, over(t, nc), jetstream.Options{})
	a, _ := join(t, s, "a", time.Hour)
	renewed := make(chan struct{}, 10)
	defer c.Intercept(s.Name()+".members.l.*", func(*nats.Msg, func()) { renewed <- struct{}{} })()
	a.Drain() // renews
	<-renewed
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Leave(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A member of an unknown format counts as alive, and has no tools.
func TestUnknownMember(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc := c.Connect(t)
	s := open(t, over(t, nc), jetstream.Options{})
	if _, err := c.JetStream(t).Publish(t.Context(), s.Name()+".members.l.new", []byte("?")); err != nil {
		t.Fatal(err)
	}
	a, _ := join(t, s, "a", time.Minute)
	list := a.Members()
	if len(list) != 2 || list[1].ID != "new" || !list[1].Draining || list[1].Tools == nil || list[1].Lease <= 0 || list[1].Name == "" || list[1].Joined.IsZero() {
		t.Errorf("members %+v", list)
	}
	if alive, err := a.Alive(t.Context(), "new"); !alive || err != nil {
		t.Errorf("alive: %t, %v", alive, err)
	}
}

// fleetSuite runs the suite for stores that are shared. Each store has a connection of its own.
func fleetSuite(t *testing.T, c *natstest.Cluster, options jetstream.Options) {
	links := make(map[task.Store]*natstest.Link)
	var mu sync.Mutex
	link := func(s task.Store) *natstest.Link {
		mu.Lock()
		defer mu.Unlock()
		return links[s]
	}
	contracttest.RunFleet(t, contracttest.Fleet{
		Open: func(t *testing.T, n int) (stores []task.Store) {
			options := options
			for i := range n {
				nc, l := c.ConnectLinked(t)
				s := open(t, over(t, nc), options)
				if i == 0 {
					options.Name = s.Name()
				}
				mu.Lock()
				links[s] = l
				mu.Unlock()
				stores = append(stores, s)
			}
			return stores
		},
		Cut: func(t *testing.T, s task.Store) (heal func()) {
			link(s).Cut()
			return link(s).Heal
		},
		LoseAcknowledgements: func(t *testing.T, s task.Store) (end func()) {
			link(s).Drop(func(subject string) bool { return strings.HasPrefix(subject, nats.InboxPrefix) })
			return func() { link(s).Drop(nil) }
		},
	})
}

// manager returns a Manager of the fleet whose restartable work is work.
func manager(t *testing.T, s *jetstream.Store, name string, work task.Work) *task.Manager {
	t.Helper()
	m, err := task.New(t.Context(), task.Options{
		Store: s, Member: task.Member{Name: name, Lease: 3 * time.Second}, Logger: slog.New(slog.DiscardHandler),
		Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }},
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
			answer, err := run.Ask(ctx, task.InputRequest{Method: mcp.MethodElicitationCreate, Key: "k", Occurrence: 1}, raw(`{"message":"m"}`))
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
	if name := natstest.Receive(t, "the task ran", started); name != "a" {
		t.Fatalf("the task runs at %s", name)
	}
	nc.Close()
	c.Kill(c.Leader(first.Name() + "-0"))
	if name := natstest.Receive(t, "the task ran again", started); name != "b" {
		t.Fatalf("the task runs at %s", name)
	}
	out := ended(t, b, created.TaskID, answers{})
	if out.Error != nil {
		t.Fatal(out.Error)
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

package jetstreamstore_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/jetstreamstore"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// process is a member of a fleet, with a connection of its own.
type process struct {
	*jetstreamstore.Store
	*jetstreamstore.Locator
	js   jetstream.JetStream
	lost atomic.Int32 // number of calls of lost
}

// join starts a process with a connection to JetStream.
func join(t *testing.T, js jetstream.JetStream, url string, lease time.Duration) *process {
	t.Helper()
	p := &process{js: js}
	p.Store = open(t, p.js, jetstreamstore.Options{})
	var err error
	if p.Locator, err = p.Join(t.Context(), jetstreamstore.LocatorOptions{URL: url, Lease: lease}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Locator.Close() })
	return p
}

// expire deletes the leases of all processes, as JetStream deletes leases that are not renewed.
func expire(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	if err := processes(t, js).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// processes returns the stream of processes.
func processes(t *testing.T, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	stream, err := js.Stream(t.Context(), jetstreamstore.DefaultName+"-processes")
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func (p *process) open(t *testing.T, session string) {
	t.Helper()
	if err := p.Locator.Open(t.Context(), session, func() { p.lost.Add(1) }); err != nil {
		t.Fatal(err)
	}
	if err := p.PersistOpening(t.Context(), session, streamable.Opening{Principal: "ann"}); err != nil {
		t.Fatal(err)
	}
}

// claims checks the result of Claim. holder is the URL of another process; "" for p itself.
func (p *process) claims(t *testing.T, session, holder string) {
	t.Helper()
	got, err := p.Claim(t.Context(), session, func() { p.lost.Add(1) })
	if got.URL != holder || err != nil {
		t.Errorf("claim of %s: %q, %v, want %q", session, got, err, holder)
	}
}

const noExpiry = time.Hour // of leases that a busy machine must not lose

func TestOneProcessHoldsSession(t *testing.T) {
	servers := natstest.Run(t, 1)
	a, b := join(t, servers.JetStream(t), "http://a.example/mcp", noExpiry), join(t, servers.JetStream(t), "http://b.example/mcp", noExpiry)
	a.open(t, "s")
	if err := b.Locator.Open(t.Context(), "s", func() {}); !errors.Is(err, streamable.ErrNotHeld) {
		t.Errorf("a second session with the same id: %v", err)
	}
	b.claims(t, "s", "http://a.example/mcp")
	add(t, a, "s", "1", streamable.Event{Number: 1, Text: []byte("one")})
	for name, err := range map[string]error{
		"Append":         b.Append(t.Context(), "s", "1", streamable.Event{Number: 2}),
		"Begin":          b.Begin(t.Context(), "s", "1", nil),
		"PersistOpening": b.PersistOpening(t.Context(), "s", streamable.Opening{}),
		"PersistState":   b.PersistState(t.Context(), "s", nil),
		"Forget":         b.Forget(t.Context(), "s"),
	} {
		if !errors.Is(err, streamable.ErrNotHeld) {
			t.Errorf("%s by another process: %v", name, err)
		}
	}
	if err := a.Release(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	b.claims(t, "s", "")
	if _, streams, err := b.Load(t.Context(), "s"); err != nil || len(streams) != 1 {
		t.Errorf("%+v, %v", streams, err)
	}
	a.claims(t, "s", "http://b.example/mcp")
	add(t, b, "s", "1", streamable.Event{Number: 2, Text: []byte("two")})
	holder, err := a.Claim(t.Context(), "s", func() {})
	for _, want := range []bool{true, false} {
		if alive, aliveErr := a.Alive(t.Context(), holder); alive != want || aliveErr != nil || err != nil {
			t.Errorf("%+v is alive: %v, %v, %v", holder, alive, aliveErr, err)
		}
		b.Locator.Close()
	}
	a.claims(t, "s", "")
	if err := a.Forget(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	if _, err := a.Claim(t.Context(), "s", func() {}); !errors.Is(err, streamable.ErrUnknown) {
		t.Errorf("claim of a deleted session: %v", err)
	}
	if n := a.lost.Load(); n != 0 {
		t.Errorf("lost was called %d times", n)
	}
}

// The writes of a process that was cut off fail once another process has taken over, even if the
// first process has not noticed.
func TestReplacedProcessCannotWrite(t *testing.T) {
	for name, write := range map[string]func(s *jetstreamstore.Store) error{
		"Append": func(s *jetstreamstore.Store) error {
			return s.Append(t.Context(), "s", "1", streamable.Event{Number: 2, Text: []byte("late")})
		},
		"Begin":          func(s *jetstreamstore.Store) error { return s.Begin(t.Context(), "s", "2", []byte("[1]")) },
		"PersistOpening": func(s *jetstreamstore.Store) error { return s.PersistOpening(t.Context(), "s", streamable.Opening{}) },
		"PersistState":   func(s *jetstreamstore.Store) error { return s.PersistState(t.Context(), "s", []byte("late")) },
		"Forget":         func(s *jetstreamstore.Store) error { return s.Forget(t.Context(), "s") },
	} {
		t.Run(name, func(t *testing.T) {
			servers := natstest.Run(t, 1)
			a := join(t, servers.JetStream(t), "http://a.example/mcp", noExpiry)
			a.open(t, "s")
			add(t, a, "s", "1", streamable.Event{Number: 1, Text: []byte("one")})
			expire(t, a.js)
			b := join(t, servers.JetStream(t), "http://b.example/mcp", noExpiry)
			b.claims(t, "s", "")
			before, streams, err := b.Load(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			if err := write(a.Store); !errors.Is(err, streamable.ErrNotHeld) {
				t.Errorf("the write has the error %v", err)
			}
			wait(t, "call of lost", func() bool { return a.lost.Load() == 1 })
			after, streamsAfter, err := b.Load(t.Context(), "s")
			if diff := cmp.Diff(before, after) + cmp.Diff(streams, streamsAfter); diff != "" || err != nil {
				t.Errorf("%v, the session has changed:\n%s", err, diff)
			}
			add(t, b, "s", "1", streamable.Event{Number: 2, Text: []byte("two"), Last: true})
			if err := a.Release(t.Context(), "s"); err != nil {
				t.Error(err)
			}
			a.claims(t, "s", "http://b.example/mcp")
			add(t, b, "s", "2", streamable.Event{Number: 1, Text: []byte("still held")})
		})
	}
}

// The sessions of a process that does not renew its lease can be claimed although the servers, whose
// clock was set back, do not end it. Those of a process that renews it cannot.
func TestLeaseThatServersDoNotEnd(t *testing.T) {
	servers := natstest.Run(t, 1)
	a, b := join(t, servers.JetStream(t), "http://a.example/mcp", noExpiry), join(t, servers.JetStream(t), "http://b.example/mcp", noExpiry)
	extend, err := jetstreamstore.ExtendNewLease(t.Context(), a.Locator)
	if err != nil {
		t.Fatal(err)
	}
	a.open(t, "s")
	b.claims(t, "s", "http://a.example/mcp")
	jetstreamstore.PassTime(b.Locator, 2*noExpiry-time.Minute)
	b.claims(t, "s", "http://a.example/mcp")
	jetstreamstore.PassTime(b.Locator, time.Minute)
	if err := extend(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.claims(t, "s", "http://a.example/mcp")
	jetstreamstore.PassTime(b.Locator, 2*noExpiry)
	b.claims(t, "s", "")
}

// A process that comes back after a partition, in the middle of a write, can write nothing more.
func TestWriteOverPartition(t *testing.T) {
	servers := natstest.Run(t, 1)
	nc, link := servers.ConnectLinked(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	a := join(t, js, "http://a.example/mcp", noExpiry)
	a.open(t, "s")
	add(t, a, "s", "1", streamable.Event{Number: 1, Text: []byte("one")})
	link.Cut()
	late := make(chan error, 1)
	go func() { // ends when the link is healed
		late <- a.Append(t.Context(), "s", "1", streamable.Event{Number: 2, Text: []byte("late")})
	}()
	b := join(t, servers.JetStream(t), "http://b.example/mcp", noExpiry)
	if err := jetstreamstore.ExpireLease(t.Context(), processes(t, b.js), a.Locator); err != nil {
		t.Fatal(err)
	}
	b.claims(t, "s", "")
	if _, _, err := b.Load(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	add(t, b, "s", "1", streamable.Event{Number: 2, Text: []byte("two"), Last: true})
	link.Heal()
	if err := natstest.Receive(t, "the late write returned", late); !errors.Is(err, streamable.ErrNotHeld) {
		t.Errorf("the late write: %v", err)
	}
	wait(t, "call of lost", func() bool { return a.lost.Load() == 1 })
	want := []streamable.Event{{Number: 1, Text: []byte("one")}, {Number: 2, Text: []byte("two"), Last: true}}
	if diff := cmp.Diff(want, readAll(t, b, "s", "1", 0)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// The lease of a process that is cut off ends, and another process takes over its sessions.
func TestLeaseExpires(t *testing.T) {
	servers := natstest.Run(t, 1)
	a := join(t, servers.JetStream(t), "http://a.example/mcp", time.Second)
	b := join(t, servers.JetStream(t), "http://b.example/mcp", noExpiry)
	a.open(t, "s")
	a.js.Conn().Close()
	wait(t, "call of lost", func() bool { return a.lost.Load() == 1 })
	wait(t, "claim of the other process", func() bool {
		holder, err := b.Claim(t.Context(), "s", func() {})
		return holder.URL == "" && err == nil
	})
	if err := a.Locator.Open(t.Context(), "new", func() {}); !errors.Is(err, jetstreamstore.ErrNotJoined) {
		t.Errorf("a new session without a lease: %v", err)
	}
}

// A process whose lease has ended joins again, as another process, and without its sessions.
func TestProcessJoinsAgain(t *testing.T) {
	servers := natstest.Run(t, 1)
	a := join(t, servers.JetStream(t), "http://a.example/mcp", time.Second)
	a.open(t, "s")
	expire(t, a.js)
	wait(t, "call of lost", func() bool { return a.lost.Load() > 0 })
	if err := a.Append(t.Context(), "s", "1", streamable.Event{Number: 1}); !errors.Is(err, streamable.ErrNotHeld) {
		t.Errorf("a write to a lost session: %v", err)
	}
	wait(t, "claim", func() bool {
		holder, err := a.Claim(t.Context(), "s", func() {})
		return holder.URL == "" && err == nil
	})
}

// Processes join and renew their leases while sessions fill the stream.
func TestFullStreamKeepsLeases(t *testing.T) {
	servers := natstest.Run(t, 1)
	a := &process{js: servers.JetStream(t)}
	a.Store = open(t, a.js, jetstreamstore.Options{MaxBytes: 64 << 10})
	var err error
	if a.Locator, err = a.Join(t.Context(), jetstreamstore.LocatorOptions{URL: "http://a.example/mcp", Lease: noExpiry}); err != nil {
		t.Fatal(err)
	}
	defer a.Locator.Close()
	a.open(t, "s")
	for n := 0; err == nil; n++ {
		if err = a.Locator.Open(t.Context(), fmt.Sprint(n), func() {}); err == nil {
			err = a.PersistOpening(t.Context(), fmt.Sprint(n), streamable.Opening{Client: text(n, 4<<10)})
		}
	}
	extend, err := jetstreamstore.ExtendNewLease(t.Context(), a.Locator)
	if err != nil {
		t.Fatal(err)
	}
	if err := extend(t.Context()); err != nil {
		t.Error(err)
	}
}

// A process keeps its lease if the answer to a renewal is lost.
func TestRenewalWithLostAnswer(t *testing.T) {
	servers := natstest.Run(t, 1)
	nc, link := servers.ConnectLinked(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, js, jetstreamstore.Options{})
	l, err := s.Join(t.Context(), jetstreamstore.LocatorOptions{URL: "http://a.example/mcp", Lease: noExpiry})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	extend, err := jetstreamstore.ExtendNewLease(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	stream := processes(t, servers.JetStream(t))
	newest := func() uint64 {
		info, err := stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return info.State.LastSeq
	}
	before := newest()
	link.CutResponses()
	done := make(chan error, 1)
	go func() { done <- extend(t.Context()) }() // ends when the link is healed
	wait(t, "renewal", func() bool { return newest() > before })
	link.Heal()
	if err := natstest.Receive(t, "the renewal returned", done); err != nil {
		t.Error(err)
	}
	if err := extend(t.Context()); err != nil {
		t.Errorf("the next renewal: %v", err)
	}
}

// Claims of unknown sessions write nothing, because clients may send any id.
func TestClaimOfUnknownSession(t *testing.T) {
	a := join(t, natstest.Run(t, 1).JetStream(t), "http://a.example/mcp", noExpiry)
	stream, err := a.js.Stream(t.Context(), jetstreamstore.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	before := stream.CachedInfo().State.LastSeq
	for range 3 {
		if _, err := a.Claim(t.Context(), "unknown", func() {}); !errors.Is(err, streamable.ErrUnknown) {
			t.Errorf("claim: %v", err)
		}
	}
	if info, err := stream.Info(t.Context()); err != nil || info.State.LastSeq != before {
		t.Errorf("claims have written %d messages, %v", info.State.LastSeq-before, err)
	}
}

// Sessions that were stored before the first Join can be claimed.
func TestClaimOfEarlierSession(t *testing.T) {
	servers := natstest.Run(t, 1)
	s := open(t, servers.JetStream(t), jetstreamstore.Options{})
	if err := s.PersistOpening(t.Context(), "s", streamable.Opening{}); err != nil {
		t.Fatal(err)
	}
	a := join(t, servers.JetStream(t), "http://a.example/mcp", noExpiry)
	a.claims(t, "s", "")
	if _, _, err := a.Load(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	add(t, a, "s", "1", streamable.Event{Number: 1, Text: []byte("one")})
}

// Claims of sessions in use are written again before they expire, and stay valid.
func TestClaimsInUseDoNotExpire(t *testing.T) {
	a := join(t, natstest.Run(t, 1).JetStream(t), "http://a.example/mcp", noExpiry)
	a.open(t, "s")
	now := time.Now().Add(jetstreamstore.DefaultMaxAge / 2)
	a.SetClock(func() time.Time { return now })
	stream, err := a.js.Stream(t.Context(), jetstreamstore.DefaultName)
	if err != nil {
		t.Fatal(err)
	}
	before := stream.CachedInfo().State.LastSeq
	if err := a.Touch(t.Context(), []string{"s", "unknown"}); err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(before+1), jetstream.WithPurgeSubject(jetstreamstore.DefaultName+".s.>")); err != nil {
		t.Fatal(err)
	}
	add(t, a, "s", "1", streamable.Event{Number: 1, Text: []byte("one")})
	if _, streams, err := a.Load(t.Context(), "s"); err != nil || len(streams) != 1 {
		t.Errorf("%+v, %v", streams, err)
	}
}

func TestJoinChecksArguments(t *testing.T) {
	s := open(t, natstest.Run(t, 1).JetStream(t), jetstreamstore.Options{})
	for _, url := range []string{"", "a.example", "ftp://a.example", "/mcp", "http://%"} {
		if _, err := s.Join(t.Context(), jetstreamstore.LocatorOptions{URL: url}); err == nil {
			t.Errorf("URL %q was accepted", url)
		}
	}
	l, err := s.Join(t.Context(), jetstreamstore.LocatorOptions{URL: "http://a.example/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := s.Join(t.Context(), jetstreamstore.LocatorOptions{URL: "http://a.example/mcp"}); err == nil {
		t.Error("the store has joined twice")
	}
}

// The servers answer none of several equal requests that create a stream at once.
func TestProcessesCreateStreamsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	servers := natstest.Run(t, 3)
	joined := make(chan error)
	for range 4 {
		js := servers.JetStream(t)
		go func() {
			s, err := jetstreamstore.Open(t.Context(), js, jetstreamstore.Options{Replicas: 3, Timeout: time.Minute})
			if err != nil {
				joined <- err
				return
			}
			l, err := s.Join(t.Context(), jetstreamstore.LocatorOptions{URL: "http://a.example/mcp", Lease: noExpiry})
			if err == nil {
				l.Close()
			}
			joined <- err
		}()
	}
	for range 4 {
		if err := natstest.Receive(t, "a process joined", joined); err != nil {
			t.Error(err)
		}
	}
}

// A process that does not set the replicas leaves those of existing streams.
func TestReplicasOfExistingStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	js := natstest.Run(t, 3).JetStream(t)
	for _, test := range []struct{ set, want int }{{0, 1}, {3, 3}, {0, 3}, {1, 1}} {
		s, err := jetstreamstore.Open(t.Context(), js, jetstreamstore.Options{Replicas: test.set, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Join(t.Context(), jetstreamstore.LocatorOptions{URL: "http://a.example/mcp", Lease: noExpiry})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		for _, name := range []string{jetstreamstore.DefaultName, jetstreamstore.DefaultName + "-processes"} {
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if got := stream.CachedInfo().Config.Replicas; got != test.want {
				t.Errorf("%s has %d replicas after %d were set, want %d", name, got, test.set, test.want)
			}
		}
	}
}

// The permissions in the documentation of the package suffice.
func TestPermissions(t *testing.T) {
	const user = "restricted"
	allow := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Allow: subjects} }
	servers := natstest.Run(t, 1, func(o *server.Options) {
		o.NoAuthUser = user
		o.Users = []*server.User{{Username: user, Password: "secret", Permissions: &server.Permissions{
			Publish: allow("mcp-sessions.>", "mcp-sessions-processes.*", "mcp-bus", "$JS.API.DIRECT.GET.mcp-sessions",
				"$JS.API.STREAM.*.mcp-sessions", "$JS.API.STREAM.MSG.*.mcp-sessions",
				"$JS.API.STREAM.*.mcp-sessions-processes", "$JS.API.STREAM.MSG.*.mcp-sessions-processes",
				"$JS.API.INFO"), // for natstest
			Subscribe: allow("_INBOX.>", "mcp-bus"),
		}}}
	})
	js := servers.JetStream(t)
	violated := make(chan error, 100)
	js.Conn().SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violated <- err })
	a := join(t, js, "http://a.example/mcp", noExpiry)
	a.open(t, "s")
	add(t, a.Store, "s", "1", streamable.Event{Number: 1, Text: text(0, 100)})
	add(t, a.Store, "s", "1", streamable.Event{Number: 2, Text: text(1, 100), Last: true})
	if got := readAll(t, a.Store, "s", "1", 0); len(got) != 2 {
		t.Errorf("%d events, want 2", len(got))
	}
	b := join(t, servers.JetStream(t), "http://b.example/mcp", noExpiry)
	b.claims(t, "s", "http://a.example/mcp")
	expire(t, js)
	b.claims(t, "s", "")
	if _, _, err := b.Load(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	if err := b.Forget(t.Context(), "s"); err != nil {
		t.Error(err)
	}
	bus, received := jetstreamstore.NewBus(js.Conn(), ""), make(chan []byte, 1)
	stop, err := bus.Subscribe(func(message []byte) { received <- message })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := bus.Publish(t.Context(), []byte("changed")); err != nil {
		t.Error(err)
	}
	natstest.Receive(t, "the message arrived", received)
	select {
	case err := <-violated:
		t.Error(err)
	default:
	}
}

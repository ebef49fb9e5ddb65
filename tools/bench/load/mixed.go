package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	mcpserver "github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// kinds is how many kinds of work a mixed member does in turn.
const kinds = 8

// principalHeader names the principal of a request.
const principalHeader = "X-Principal"

// mix sets the load of clients of both kinds that do different kinds of work.
func (l *load) mix(sessions, modern int) error {
	if sessions < 1 {
		return fmt.Errorf("%d sessions, want at least one", sessions)
	}
	pace := time.Duration(float64(sessions+modern) / l.rate * float64(time.Second))
	l.settle = kinds * pace
	m := &mixture{ttl: patience, poll: 100 * time.Millisecond}
	if l.length >= flatTime { // memory must not grow: tasks expire
		m.ttl, m.poll = 20*time.Second, time.Second
		l.settle = max(l.settle, 2*m.ttl)
	}
	if err := m.serve(); err != nil {
		return err
	}
	// The members alternate as far as possible. A principal has one member of the rarer kind, and at
	// least one of the other kind before it.
	all := make([]*mixed, sessions+modern)
	rarer := min(sessions, modern)
	for i := range all {
		group := i * rarer / len(all)
		last := group != (i+1)*rarer/len(all)
		all[i] = &mixed{of: m, number: i, uri: fmt.Sprintf("load:%d", i), name: fmt.Sprint("user ", i), principal: fmt.Sprint("principal ", group)}
		all[i].modern = last == (modern == rarer)
		if last {
			all[i].partner = all[i-1]
			for j := i - 1; j >= 0 && all[j].principal == all[i].principal; j-- {
				all[j].partner = all[i]
			}
		}
	}
	for i, x := range all {
		x.watched = all[(i+1)%len(all)]
		x.stranger = all[(i+len(all)/2)%len(all)]
		l.members = append(l.members, x)
	}
	m.members = all
	l.host, l.name, l.unit, l.idle = m, "clients", "pieces of work", opening
	l.verify = func(ctx context.Context) error {
		failed := m.verifyTasks(ctx)
		for _, x := range all {
			if err := x.verify(ctx); err != nil {
				failed = err
			}
		}
		return failed
	}
	return nil
}

// mixture is the server of mixed members.
type mixture struct {
	ttl     time.Duration // lifetime of a task
	poll    time.Duration // interval between two polls of a task
	counts  taskCounts
	dir     string // of the store
	store   *bolt.Store
	server  *mcpserver.Server
	handler *streamable.Handler
	http    *httptest.Server
	lists   atomic.Int64 // changes of the list of tools
	change  func() error // changes the list of tools
	members []*mixed
}

func (m *mixture) serve() error {
	var err error
	if m.dir, err = os.MkdirTemp("", "load"); err != nil {
		return err
	}
	if m.store, err = bolt.Open(filepath.Join(m.dir, "tasks.db")); err != nil {
		return errors.Join(err, os.RemoveAll(m.dir))
	}
	s := mcpserver.New("server", "1", &mcpserver.Options{Limits: mcpserver.Limits{Subscriptions: 1 << 20}, Tasks: task.Options{
		Store: m.store,
		TTL:   task.TTL{Default: m.ttl}, Updates: task.Updates{Poll: m.poll}, Recovery: task.Recovery{ParkAfter: parkAfter}, Limits: task.Limits{Tasks: -1, Bytes: -1, Rate: -1},
	}})
	m.server = s
	mcpserver.AddTool(s, "echo", "", func(_ context.Context, _ *mcpserver.Call, in text) (string, error) { return in.Text, nil })
	mcpserver.AddTool(s, "ask", "", func(ctx context.Context, c *mcpserver.Call, in text) (string, error) {
		key, err := mcpserver.Step(ctx, c, "key", func(context.Context) (string, error) { return in.Text, nil })
		if err != nil {
			return "", err
		}
		var first, second text
		if _, err := mcpserver.Elicit(ctx, c, "First?", &first); err != nil {
			return "", err
		}
		if _, err := mcpserver.Elicit(ctx, c, "Second?", &second); err != nil {
			return "", err
		}
		return key + first.Text + second.Text, nil
	})
	mcpserver.AddTool(s, "update", "", func(_ context.Context, _ *mcpserver.Call, in text) (string, error) {
		s.ResourceUpdated(in.Text)
		return "", nil
	})
	mcpserver.AddTemplate(s, "load:{number}", "load", func(context.Context, *mcpserver.Call, mcpserver.Resource) (string, error) { return "", nil })
	changing := mcpserver.AddTool(s, "changing", "", func(context.Context, *mcpserver.Call, struct{}) (string, error) { return "", nil })
	m.addTaskTools()
	m.handler, err = s.Handler(&streamable.HandlerOptions{
		Sessions: streamable.Sessions{Store: streamable.NewMemoryStore(streamable.MemoryOptions{MaxBytes: 1 << 20})}, // full when the measurement begins
		Limits:   streamable.Limits{Sessions: 100_000, Requests: 100_000},
		Access:   streamable.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get(principalHeader), nil }},
	})
	if err != nil {
		return errors.Join(err, m.store.Close(), os.RemoveAll(m.dir))
	}
	m.http = httptest.NewServer(m.handler)
	m.change = func() error {
		number := m.lists.Add(1)
		return changing.Change(func(t *mcp.Tool) { t.Description = new(fmt.Sprint("change ", number)) })
	}
	return nil
}

func (m *mixture) url() string { return m.http.URL }

func (m *mixture) close(ctx context.Context) error {
	err := errors.Join(m.server.Shutdown(ctx), m.handler.Shutdown(ctx))
	m.http.Close()
	return errors.Join(err, m.store.Close(), os.RemoveAll(m.dir))
}

// text is the arguments of a tool, or the fields of a form.
type text struct {
	Text string `json:"text"`
}

// mixed is a client of either kind.
type mixed struct {
	mcp.UnimplementedClientNotificationHandler
	of        *mixture
	number    int
	modern    bool
	uri       string // of the resource that it updates
	name      string
	principal string
	partner   *mixed // a client of the other kind with the same principal
	stranger  *mixed // a client with another principal, if there is one
	watched   *mixed // the client whose resource it follows, too
	client    *client.Client

	updates     atomic.Int64 // of its resource
	seen        atomic.Int64 // number of updates that it has been notified of
	seenWatched atomic.Int64 // updates of the watched resource before the last notification
	seenLists   atomic.Int64 // changes of the list before the last notification
}

func (x *mixed) open(ctx context.Context, serverURL string, pool *http.Client) (err error) {
	o := client.Options{Notifications: x, Input: client.Input{Fill: x.fill}, Limits: client.Limits{InputRequests: -1}, HTTP: streamable.ClientOptions{Options: httpclient.Options{
		HTTP: pool, Header: http.Header{principalHeader: {x.principal}},
	}}}
	o.Session.Revisions = session.Revisions()
	if x.modern {
		o.Session.Revisions = session.ModernRevisions()
	}
	if x.client, err = client.Dial(ctx, serverURL, &o); err != nil {
		return err
	}
	return errors.Join(x.client.Subscribe(ctx, x.uri), x.client.Subscribe(ctx, x.watched.uri))
}

func (x *mixed) close() error {
	if x.client == nil {
		return nil
	}
	return x.client.Close()
}

// fill responds to the input requests of the tool "ask".
func (x *mixed) fill(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
	return client.Accept(map[string]any{"text": x.name + f.Message})
}

// ToolListChanged implements [mcp.ClientNotificationHandler].
func (x *mixed) ToolListChanged(context.Context, *mcp.NotificationParams) error {
	x.seenLists.Store(x.of.lists.Load())
	return nil
}

// ResourceUpdated implements [mcp.ClientNotificationHandler].
func (x *mixed) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	switch p.URI {
	case x.uri:
		x.seen.Add(1)
	case x.watched.uri:
		x.seenWatched.Store(x.watched.updates.Load())
	}
	return nil
}

func (x *mixed) work(ctx context.Context, n int) error {
	given := fmt.Sprint(x.name, " ", n)
	if x == x.of.members[0] {
		return x.changeList(ctx)
	}
	switch (n + x.number) % kinds {
	case 0:
		return x.call(ctx, "echo", given, given)
	case 1:
		return x.call(ctx, "ask", given, given+x.name+"First?"+x.name+"Second?")
	case 2:
		x.updates.Add(1)
		if err := x.call(ctx, "update", x.uri, ""); err != nil {
			return err
		}
		return x.await(ctx, "its update", func() bool { return x.seen.Load() >= x.updates.Load() })
	case 3:
		return x.job(ctx, given, x, x.of.pollTask)
	case 4:
		return x.job(ctx, given, x.partner, x.of.pollTask)
	case 5:
		return x.job(ctx, given, x.partner, update)
	case 6:
		return x.cancelTask(ctx, given)
	}
	count := 0
	for _, err := range x.client.Tools(ctx) {
		if err != nil {
			return err
		}
		count++
	}
	if count != 6 {
		return fmt.Errorf("%s lists %d tools", x.name, count)
	}
	return nil
}

// changeList changes the list of tools and waits until all members have been notified.
func (x *mixed) changeList(ctx context.Context) error {
	if err := x.of.change(); err != nil {
		return err
	}
	for _, member := range x.of.members {
		if err := member.awaitList(ctx); err != nil {
			return err
		}
	}
	return nil
}

// call calls a tool and checks its result.
func (x *mixed) call(ctx context.Context, tool, given, want string) error {
	result, err := x.client.CallTool(ctx, tool, text{given})
	if err != nil {
		return fmt.Errorf("%s calls %s: %w", x.name, tool, err)
	}
	if got, _ := client.Text(result); got != want {
		return fmt.Errorf("%s calls %s: got %q, want %q", x.name, tool, got, want)
	}
	return nil
}

// await waits for a notification.
func (x *mixed) await(ctx context.Context, what string, arrived func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !arrived() {
		if !sleep(ctx, 5*time.Millisecond) {
			return fmt.Errorf("%s has missed %s", x.name, what)
		}
	}
	return nil
}

// verify checks that the member has seen all changes. Several changes may have caused one
// notification.
func (x *mixed) verify(ctx context.Context) error {
	return errors.Join(
		x.await(ctx, "an update of "+x.watched.name, func() bool { return x.seenWatched.Load() == x.watched.updates.Load() }),
		x.awaitList(ctx),
	)
}

func (x *mixed) awaitList(ctx context.Context) error {
	return x.await(ctx, "a change of the list", func() bool { return x.seenLists.Load() == x.of.lists.Load() })
}

package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

var (
	worlds    = flag.Int("worlds", 0, "number of worlds of TestRandomUpstreams; 0 for 60, or 20 with -short; .ci/check plays 140 more")
	worldSeed = flag.Uint64("worldseed", 0, "seed of the first world of TestRandomUpstreams; the next worlds have the next seeds; 0 for a random seed")
)

// TestRandomUpstreams connects clients of two principals, through two proxies with the same keys,
// to upstreams of random revisions. The first upstream has no fault; those of the others change at
// random times. The clients make random requests. Whatever happens,
//
//   - requests to the first upstream succeed, and take no longer than alone; those to all upstreams
//     take a second more for each of the others at most,
//   - each request ends, at the latest with the timeout of the client,
//   - no client sees, changes or is asked for anything of the other principal,
//   - each form and log message names the upstream that it is from,
//   - nothing remains after the end.
func TestRandomUpstreams(t *testing.T) {
	n, seed := *worlds, *worldSeed
	if n == 0 {
		n = 60
		if testing.Short() {
			n = 20
		}
	}
	if seed == 0 {
		seed = rand.Uint64()
	}
	defer func() {
		if t.Failed() {
			t.Logf("repeat with -worlds 1 -worldseed %d", seed)
		}
	}()
	for range n {
		synctest.Test(t, func(t *testing.T) { newWorld(t, seed).run() }) // does not return if it fails
		seed++
	}
}

// world is one random test.
type world struct {
	t     *testing.T
	rand  *rand.Rand // of the faults; users have their own
	ups   []*faulty  // the first one has no fault
	eras  []era      // of ups
	users []*worldUser

	mu     sync.Mutex
	owners map[string]string // principals by the ids of their tasks
	states map[string]string // principals by the requestState of their calls
}

// worldUser is a client of a world.
type worldUser struct {
	*world
	rand      *rand.Rand
	era       era
	principal string
	client    *client.Client
	created   []string // ids of tasks

	mcp.UnimplementedClientNotificationHandler
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rand: rand.New(rand.NewPCG(seed, 0)), owners: map[string]string{}, states: map[string]string{}}
	either := func() era { return []era{sessions, modern}[w.rand.IntN(2)] }
	var list []proxy.Upstream
	for i := range 2 + w.rand.IntN(2) {
		of := either()
		up := newFaulty(t, fmt.Sprint("u", i), of, w.rand.IntN(2) == 0)
		addTool(t, up.Server, "form", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
			var in struct{ Name string }
			_, err := server.Elicit(ctx, c, "for "+c.ClientInfo().Name, &in)
			return in.Name, err
		})
		w.ups, w.eras = append(w.ups, up), append(w.eras, of)
		list = append(list, up.as())
	}
	w.rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	var proxies []*proxy.Proxy
	for range 2 {
		p := newProxy(t, &proxy.Options{Upstreams: list, Server: server.Options{Logger: discard, Shared: server.Shared{StateKeys: secret(1)}}})
		addTool(t, p.Server, "own", echo("own"))
		proxies = append(proxies, p)
	}
	for i := range 4 {
		u := &worldUser{world: w, rand: rand.New(rand.NewPCG(seed, uint64(i)+1)), era: either(), principal: []string{"ann", "eve"}[i%2]}
		o := u.era.in(&client.Options{Info: mcp.Implementation{Name: u.principal, Version: "1"}, Input: client.Input{Fill: u.fill}, Notifications: u})
		u.client = connectAs(t, proxies[w.rand.IntN(2)], u.principal, o)
		w.users = append(w.users, u)
	}
	return w
}

func (w *world) run() {
	ctx, cancel := context.WithCancel(w.t.Context())
	var faulting, users sync.WaitGroup
	faulting.Go(func() {
		for ctx.Err() == nil {
			w.ups[1+w.rand.IntN(len(w.ups)-1)].set(fault(w.rand.IntN(int(faults))))
			select {
			case <-time.After(time.Duration(w.rand.Int64N(int64(20 * time.Second)))):
			case <-ctx.Done():
			}
		}
	})
	for _, u := range w.users {
		users.Go(u.run)
	}
	users.Wait()
	cancel()
	faulting.Wait()
	began := time.Now()
	for _, u := range w.users {
		u.client.Close()
	}
	time.Sleep(10 * time.Second)
	for _, up := range w.ups {
		if n := up.open.Load(); n != 0 {
			w.t.Errorf("%d connections to %s remain", n, up.name)
		}
	}
	if d := time.Since(began); d > 15*time.Second {
		w.t.Errorf("the end takes %v", d)
	}
}

// run makes random requests.
func (u *worldUser) run() {
	for range 12 {
		u.pause(5 * time.Second)
		i := u.rand.IntN(len(u.ups))
		if u.rand.IntN(3) == 0 {
			i = 0
		}
		u.act(i)
	}
}

func (u *worldUser) pause(most time.Duration) {
	time.Sleep(time.Duration(u.rand.Int64N(int64(most))))
}

// act makes a random request to an upstream.
func (u *worldUser) act(i int) {
	up := u.ups[i]
	good := i == 0
	shared := time.Duration(len(u.ups)-1)*patience + 3*latency // a request that concerns all
	direct := 3 * latency
	typed := direct + shared // CallTool may have to fetch the list of tools before the call
	if !good {
		direct = time.Minute + patience // after the client's timeout
		typed = 2 * direct
	}
	switch u.rand.IntN(12) {
	case 0, 1:
		u.timed("call of "+up.name, good, direct, func(ctx context.Context) error {
			text, err := u.client.Session().Call(ctx, mcp.MethodToolsCall, session.Raw(`{"name":"`+up.name+`_echo","arguments":{"of":"`+u.principal+`"}}`))
			if err != nil {
				return err
			}
			r := new(mcp.CallToolResult)
			return u.isText(r, codec.Unmarshal(text, r), up.name+`{"of":"`+u.principal+`"}`)
		})
	case 2:
		u.timed("form of "+up.name, good, typed, func(ctx context.Context) error {
			r, err := u.client.CallTool(ctx, up.name+"_form", nil)
			return u.isText(r, err, u.principal)
		})
	case 3:
		u.timed("list of tools", true, shared, func(ctx context.Context) error {
			page, err := u.client.With().ListTools(ctx, nil)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(page.Tools, func(t mcp.Tool) bool { return t.Name == "u0_echo" }) {
				return errors.New("u0_echo is missing")
			}
			return nil
		})
	case 4:
		u.timed("resource of "+up.name, good, direct, func(ctx context.Context) error { return u.read(ctx, "memo://"+up.name, up.name) })
	case 5:
		u.timed("unlisted resource of u0", true, shared, func(ctx context.Context) error { return u.read(ctx, "hidden:///u0", "u0") })
	case 6:
		u.timed("unknown resource", false, time.Minute+patience, func(ctx context.Context) error {
			_, err := u.client.Session().Call(ctx, mcp.MethodResourcesRead, session.Raw(`{"uri":"none:///"}`))
			return err
		})
	case 7:
		if u.era.name == "modern" {
			u.listen(up.name)
			return
		}
		u.timed("log level", true, shared, func(ctx context.Context) error { return u.client.SetLogLevel(ctx, mcp.LoggingLevelDebug) })
	case 8:
		u.timed("log of "+up.name, good, typed, func(ctx context.Context) error {
			r, err := u.client.CallTool(ctx, up.name+"_log", nil)
			return u.isText(r, err, up.name)
		})
	case 9:
		u.startTask(up, good && hasTasks(u.era, u.eras[i]), direct)
	case 10:
		u.useTask()
	default:
		u.useState(up, good && u.era.name == "modern", direct)
	}
}

// timed makes a request. It must end within limit, and succeed if must is set.
func (u *worldUser) timed(name string, must bool, limit time.Duration, do func(ctx context.Context) error) {
	began := time.Now()
	err := do(u.t.Context())
	if d := time.Since(began); d > limit {
		u.t.Errorf("%s of client %s (%s): took %v, want at most %v: %v", name, u.principal, u.era.name, d, limit, err)
	}
	if must && err != nil || errors.Is(err, errForeign) {
		u.t.Errorf("%s of client %s (%s): %v", name, u.principal, u.era.name, err)
	}
}

// errForeign is wrapped by the errors of results that are wrong.
var errForeign = errors.New("wrong result")

// isText returns an error unless a call has a text as its result.
func (u *worldUser) isText(r *mcp.CallToolResult, err error, want string) error {
	if err != nil {
		return err
	}
	if len(r.Content) == 0 {
		return errors.New("empty result") // of a garbled upstream
	}
	got := r.Content[0].(*mcp.TextContent).Text
	if r.IsError != nil && *r.IsError {
		return errors.New(got)
	}
	if got != want {
		return fmt.Errorf("%w: %s, want %s", errForeign, got, want)
	}
	return nil
}

func (u *worldUser) read(ctx context.Context, uri, want string) error {
	r, err := u.client.ReadResource(ctx, uri)
	if err != nil {
		return err
	}
	if got := r.Contents[0].(*mcp.TextResourceContents).Text; got != want {
		return fmt.Errorf("%w: %s, want %s", errForeign, got, want)
	}
	return nil
}

// listen subscribes to a resource of u0 and of another upstream at once.
func (u *worldUser) listen(other string) {
	u.timed("subscription", true, time.Duration(len(u.ups))*patience, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(len(u.ups))*patience)
		defer cancel()
		accepted := false
		err := u.client.Session().Listen(ctx, mcp.SubscriptionFilter{ResourceSubscriptions: []string{"memo://u0", "memo://" + other}}, func(f mcp.SubscriptionFilter) {
			accepted = slices.Contains(f.ResourceSubscriptions, "memo://u0")
			cancel()
		})
		if !accepted {
			return fmt.Errorf("not accepted: %w", err)
		}
		return nil
	})
}

func (u *worldUser) startTask(up *faulty, must bool, limit time.Duration) {
	if u.era.name == "modern" {
		return
	}
	u.timed("task of "+up.name, must, limit, func(ctx context.Context) error {
		result, err := u.client.Session().Call(ctx, mcp.MethodToolsCall, session.Raw(`{"name":"`+up.name+`_who","task":{}}`))
		if err != nil {
			return err
		}
		task, _ := codec.Member(result, "task")
		id, _ := codec.Member(task, "taskId")
		u.mu.Lock()
		defer u.mu.Unlock()
		u.owners[strings.Trim(string(id), `"`)] = u.principal
		u.created = append(u.created, strings.Trim(string(id), `"`))
		return nil
	})
}

// useTask uses a task of any client by its id, or lists the tasks.
func (u *worldUser) useTask() {
	if u.era.name == "modern" {
		return
	}
	u.mu.Lock()
	var ids []string
	for id := range u.owners {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	u.mu.Unlock()
	if len(ids) == 0 || u.rand.IntN(4) == 0 {
		u.timed("list of tasks", true, time.Duration(len(u.ups)-1)*patience+3*latency, func(ctx context.Context) error {
			text, err := u.client.Session().Call(ctx, mcp.MethodTasksList, nil)
			if jsonrpc.CodeOf(err) == jsonrpc.CodeMethodNotFound || unsupported(err) {
				return nil
			}
			var list struct{ Tasks []struct{ TaskID string } }
			if err := errors.Join(err, json.Unmarshal(text, &list)); err != nil {
				return err
			}
			for _, t := range list.Tasks {
				if !slices.Contains(u.created, t.TaskID) {
					return fmt.Errorf("%w: %s", errForeign, t.TaskID)
				}
			}
			return nil
		})
		return
	}
	id := ids[u.rand.IntN(len(ids))]
	method := []string{mcp.MethodTasksGet, mcp.MethodTasksResult, mcp.MethodTasksCancel}[u.rand.IntN(3)]
	limit, foreign := time.Minute+patience, u.owners[id] != u.principal
	if foreign {
		limit = 0
	} else if strings.HasPrefix(id, "u0:") {
		limit = 3 * latency
	}
	u.timed(method, false, limit, func(ctx context.Context) error {
		text, err := u.client.Session().Call(ctx, method, session.Raw(`{"taskId":"`+id+`"}`))
		if unsupported(err) {
			return nil
		}
		if foreign && (jsonrpc.CodeOf(err) != jsonrpc.CodeInvalidParams || !strings.Contains(err.Error(), "task: not found")) {
			return fmt.Errorf("%w: %s, %w", errForeign, text, err)
		}
		if err == nil && method == mcp.MethodTasksResult && !strings.Contains(string(text), `"`+u.principal+`"`) {
			return fmt.Errorf("%w: %s", errForeign, text)
		}
		return nil
	})
}

func unsupported(err error) bool {
	_, ok := errors.AsType[*session.CapabilityError](err)
	return ok
}

// useState begins a call that asks for input, or continues that of another client.
func (u *worldUser) useState(up *faulty, must bool, limit time.Duration) {
	if u.era.name == "sessions" {
		return
	}
	u.mu.Lock()
	var states []string
	for state, principal := range u.states {
		if principal != u.principal {
			states = append(states, state)
		}
	}
	slices.Sort(states)
	u.mu.Unlock()
	if len(states) == 0 || u.rand.IntN(2) == 0 {
		u.timed("first round at "+up.name, must, limit, func(ctx context.Context) error {
			r, err := u.send(ctx, up.name, "")
			if err != nil {
				return err
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			u.states[r] = u.principal
			return nil
		})
		return
	}
	state := states[u.rand.IntN(len(states))]
	name, _, _ := strings.Cut(state, ":")
	u.timed("another's round at "+name, false, time.Minute+patience, func(ctx context.Context) error {
		if r, err := u.send(ctx, name, state); err == nil {
			return fmt.Errorf("%w: %v", errForeign, r)
		}
		return nil
	})
}

// send sends one round of a call of the tool "form", and returns the requestState of the result.
func (u *worldUser) send(ctx context.Context, upstream, state string) (string, error) {
	params := `{"name":"` + upstream + `_form","arguments":{}}`
	if state != "" {
		params = `{"name":"` + upstream + `_form","arguments":{},"requestState":"` + state + `"}`
	}
	text, err := u.client.Session().Call(ctx, mcp.MethodToolsCall, session.Raw(params))
	if err != nil {
		return "", err
	}
	raw, ok := codec.Member(text, "requestState")
	if !ok {
		return "", fmt.Errorf("%w: %s", errForeign, text)
	}
	return strings.Trim(string(raw), `"`), nil
}

// fill responds to a form, which must be of a call of the same principal.
func (u *worldUser) fill(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
	if name := origin(f.Meta); f.Message != "["+name+"] for "+u.principal && f.Message != "["+name+"] Name?" || !strings.HasPrefix(name, "u") {
		u.t.Errorf("form of client %s: %q of %q", u.principal, f.Message, name)
	}
	return user(u.principal).Input.Fill(context.Background(), f)
}

// LoggingMessage checks that a log message names its upstream.
func (u *worldUser) LoggingMessage(_ context.Context, p *mcp.LoggingMessageNotificationParams) error {
	if data := string(p.Data); data != "1" && (p.Logger == nil || data != `"`+*p.Logger+`"`) {
		u.t.Errorf("log message %s without its upstream", data)
	}
	return nil
}

package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// operation is a request that concerns the upstream "good", or all upstreams.
type operation struct {
	name string
	do   func(ctx context.Context, c *client.Client) error
}

// operations returns a request of each method that a client and an upstream of these eras have.
func operations(of, up era) []operation {
	raw := func(method, params string) operation {
		return operation{method, func(ctx context.Context, c *client.Client) error {
			_, err := c.Session().With(session.Timeout(0)).Call(ctx, method, session.Raw(params))
			return err
		}}
	}
	call := func(tool string) operation {
		return operation{"tools/call of " + tool, func(ctx context.Context, c *client.Client) error {
			r, err := c.CallTool(ctx, tool, nil, client.OnProgress(func(session.Progress) {}))
			if err == nil && r.IsError != nil && *r.IsError {
				err = errors.New("the result is an error")
			}
			return err
		}}
	}
	read := func(uri string) operation {
		return operation{"resources/read of " + uri, func(ctx context.Context, c *client.Client) error {
			r, err := c.ReadResource(ctx, uri)
			if err == nil && r.Contents[0].(*mcp.TextResourceContents).Text != "good" {
				err = errors.New("wrong resource")
			}
			return err
		}}
	}
	all := []operation{
		raw("tools/list", `{}`), raw("prompts/list", `{}`), raw("resources/list", `{}`), raw("resources/templates/list", `{}`),
		call("good_echo"), call("good_ask"), call("good_log"), call("own"),
		raw("prompts/get", `{"name":"good_ask"}`), read("memo://good"), read("good:///1"), read("hidden:///good"),
		raw("completion/complete", `{"ref":{"type":"ref/resource","uri":"good:///{x}"},"argument":{"name":"x","value":""}}`),
		{"subscription", func(ctx context.Context, c *client.Client) error {
			return errors.Join(c.Subscribe(ctx, "memo://good"), c.Unsubscribe(ctx, "memo://good"))
		}},
		{"ping", func(ctx context.Context, c *client.Client) error { return c.Ping(ctx) }},
	}
	if of.name == "sessions" {
		all = append(all, raw("logging/setLevel", `{"level":"error"}`))
	}
	if hasTasks(of, up) {
		all = append(all, raw("tasks/list", `{}`), operation{"a task", func(ctx context.Context, c *client.Client) error {
			h, err := c.StartTool(ctx, "good_who", nil)
			if err != nil {
				return err
			}
			if _, err := h.Result(ctx); err != nil {
				return err
			}
			if _, err := h.Cancel(ctx); err == nil {
				return errors.New("a completed task was cancelled")
			}
			return nil
		}})
	}
	return all
}

// hasTasks reports whether a proxy passes on tasks between a client and an upstream of these eras.
func hasTasks(of, up era) bool { return of.name == "sessions" && up.name == "sessions" }

// measure performs all operations a number of times, and returns the longest time of each.
func measure(t *testing.T, c *client.Client, list []operation, times int) map[string]time.Duration {
	t.Helper()
	longest := map[string]time.Duration{}
	for range times {
		for _, op := range list {
			began := time.Now()
			if err := op.do(t.Context(), c); err != nil {
				t.Errorf("%s: %v", op.name, err)
			}
			longest[op.name] = max(longest[op.name], time.Since(began))
		}
		time.Sleep(time.Second)
	}
	return longest
}

// One upstream is slow, stuck, hung, blocked, flooding, dying or garbled. The requests to another
// one, and those to all, take no longer than alone once the proxy has found out, and one second
// longer before that.
func TestFaultsAffectNoOtherUpstream(t *testing.T) {
	inEras(t, func(t *testing.T, of, up era) {
		var alone map[string]time.Duration
		for f := range faults {
			t.Run(f.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					good, bad := newFaulty(t, "good", up, false), newFaulty(t, "bad", up, true)
					p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{bad.as(), good.as()}, Server: server.Options{Logger: discard}})
					addTool(t, p.Server, "own", echo("own"))
					c := connect(t, p, of.in(user("Ada")))
					list := operations(of, up)
					if hasTasks(of, up) {
						if _, err := c.StartTool(t.Context(), "bad_who", nil); err != nil { // so that tasks/list asks it
							t.Fatal(err)
						}
					}
					measure(t, c, list, 1)
					bad.set(f)
					time.Sleep(10 * time.Second)
					first := measure(t, c, list, 1)
					times := 20
					if testing.Short() {
						times = 3
					}
					later := measure(t, c, list, times)
					if f == none {
						alone = later
						t.Log(alone)
						return
					}
					for _, name := range slices.Sorted(maps.Keys(alone)) {
						if first[name] > 2*alone[name]+patience {
							t.Errorf("%s: %v at first, %v alone", name, first[name], alone[name])
						}
						if later[name] > 2*alone[name] {
							t.Errorf("%s: %v later, %v alone", name, later[name], alone[name])
						}
					}
					began := time.Now()
					p.Close()
					if d := time.Since(began); d > 2*time.Second {
						t.Errorf("Close takes %v", d)
					}
				})
			})
		}
	})
}

// The first client of a proxy waits for an upstream that does not respond for ConnectTimeout, later
// ones for a second. No client waits for it before it calls a tool of another one.
func TestFaultsDelayFirstResponseOnly(t *testing.T) {
	for _, of := range []era{sessions, modern} {
		for _, f := range []fault{slow, stuck, hung, blocked} {
			t.Run(fmt.Sprint(of.name, " ", f), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					good, bad := newFaulty(t, "good", of, false), newFaulty(t, "bad", of, false)
					bad.set(f)
					p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{bad.as(), good.as()}, Server: server.Options{Logger: discard}})
					for i, limit := range []time.Duration{proxy.DefaultConnectTimeout, patience, patience} {
						began := time.Now()
						o := of.in(user("Ada"))
						o.Info.Name, o.Info.Version = fmt.Sprint(i), "1"
						c := connect(t, p, o)
						mustCall(t, c, "good_echo", nil)
						if d := time.Since(began); d > limit+10*latency {
							t.Errorf("client %d: %v", i, d)
						}
						toolNames(t, c)
						if d := time.Since(began); d > limit+10*latency {
							t.Errorf("list of client %d: %v", i, d)
						}
					}
				})
			})
		}
	}
}

// If an upstream is a proxy with the same ConnectTimeout, whose own upstream does not respond, the
// first response of the outer proxy has the features of the inner one.
func TestFirstResponseHasFeaturesOfInnerProxy(t *testing.T) {
	for _, of := range []era{sessions, modern} {
		for _, between := range []era{sessions, modern} {
			t.Run(of.name+" "+between.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					good, bad := newFaulty(t, "good", of, false), newFaulty(t, "bad", of, false)
					bad.set(hung)
					inner := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{bad.as(), good.as()}, Server: *between.serving(&server.Options{Logger: discard})})
					p := newProxy(t, &proxy.Options{Server: server.Options{Logger: discard}, Upstreams: []proxy.Upstream{{Name: "in", Prefix: "in_", Connect: func(context.Context) (transport.Conn, error) {
						here, there := inmemory.Pair(inmemory.Options{})
						_, err := inner.Serve(there)
						return here, err
					}}}})
					began := time.Now()
					c := connect(t, p, of.in(nil))
					if names := toolNames(t, c); !slices.Contains(names, "in_good_echo") {
						t.Errorf("after %v, the tools are %q", time.Since(began), names)
					}
					if d := time.Since(began); d > proxy.DefaultConnectTimeout {
						t.Errorf("the first list took %v", d)
					}
					bad.set(none)
					time.Sleep(5 * time.Minute)
					if names := toolNames(t, c); !slices.Contains(names, "in_bad_echo") {
						t.Errorf("later, the tools are %q", names)
					}
					c.Close() // before the proxies
					p.Close()
				})
			})
		}
	}
}

// An upstream cannot report updates of a resource that the client has subscribed to at another one,
// and what it reports without end does not arrive without end.
func TestUpdatesAreThoseOfUpstream(t *testing.T) {
	inEras(t, func(t *testing.T, of, up era) {
		synctest.Test(t, func(t *testing.T) {
			good, bad := newUpstream(t, "good", up.serving(nil)), newFaulty(t, "bad", sessions, false)
			addResource(t, good.Server, "memo://good", "good")
			var n notices
			p := newProxy(t, &proxy.Options{Upstreams: []proxy.Upstream{bad.as(), good.as("good")}, Server: server.Options{Logger: discard}})
			c := connect(t, p, of.in(&client.Options{Notifications: &n}))
			for _, uri := range []string{"memo://good", "memo://bad"} {
				if err := c.Subscribe(t.Context(), uri); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			n.take()
			report := func(uri string) {
				for _, s := range bad.Sessions() {
					if err := s.Notify(t.Context(), mcp.MethodNotificationsResourcesUpdated, session.Raw(`{"uri":"`+uri+`"}`)); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
			}
			report("memo://good")
			equal(t, "updates", []string(nil), n.take())
			report("memo://bad")
			good.ResourceUpdated("memo://good")
			synctest.Wait()
			got := n.take()
			slices.Sort(got)
			equal(t, "updates", []string{"updated memo://bad", "updated memo://good"}, got)
			began := time.Now()
			for time.Since(began) < 10*time.Second {
				for range 100 {
					report("memo://bad")
				}
				time.Sleep(50 * time.Millisecond)
			}
			if got := len(n.take()); got > 6100 {
				t.Errorf("%d updates in 10 seconds", got)
			}
			good.ResourceUpdated("memo://good")
			synctest.Wait()
			if got := n.take(); !slices.Contains(got, "updated memo://good") {
				t.Errorf("updates: %v", got)
			}
		})
	})
}

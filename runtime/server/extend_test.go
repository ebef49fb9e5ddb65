package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/servertest"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// weather is an extension like those of the protocol: methods, settings, a list, subscriptions to
// places, and a request that stays open.
type weather struct {
	closed  chan struct{} // has a value for each subscription that has ended
	changed atomic.Pointer[func(place string)]
}

const weatherID = "com.example/weather"

type town struct {
	Place string `json:"place"`
}

type report struct {
	Meta  *mcp.NotificationMetaObject `json:"_meta,omitempty"`
	Place string                      `json:"place"`
	Sky   string                      `json:"sky"`
}

func (w *weather) extend(s *server.Server) error {
	return s.Extend(server.Extension{
		ID: weatherID, Settings: json.RawMessage(`{"places":true}`), Negotiated: true,
		Methods: map[string]session.Handler{
			"weather/get": server.Method(func(_ context.Context, c *server.Call, p town) (report, error) {
				return report{Place: p.Place, Sky: "blue"}, nil
			}),
			"weather/stream": server.Method(func(ctx context.Context, c *server.Call, p town) (*report, error) {
				req, _ := session.FromContext(ctx)
				meta := &mcp.NotificationMetaObject{SubscriptionID: req.ID}
				return &report{Place: p.Place}, c.Stand(ctx, []string{p.Place}, func(ctx context.Context) error {
					if err := c.Notify(ctx, "notifications/weather/now", value.Of(report{meta, p.Place, "grey"})); err != nil {
						return err
					}
					<-ctx.Done()
					return ctx.Err()
				})
			}),
		},
		Validate: func(_ string, params []byte) error {
			if name, _ := codec.Member(params, "place"); string(name) == `"nowhere"` {
				return errors.New("place is not on the map")
			}
			return nil
		},
		Lists: map[string]string{"weatherPlacesChanged": "notifications/weather/places_changed"},
		Listen: map[string]func(context.Context, *server.Call, json.RawMessage) (server.Subscription, error){
			"weatherPlaces": func(_ context.Context, _ *server.Call, member json.RawMessage) (server.Subscription, error) {
				sub := &weatherSubscription{w: w}
				if err := codec.Unmarshal(member, value.Of(&sub.places)); err != nil {
					return nil, jsonrpc.InvalidParams(err)
				}
				return sub, nil
			},
		},
	})
}

type weatherSubscription struct {
	w      *weather
	places []string
}

func (s *weatherSubscription) Names() []string { return s.places }

func (s *weatherSubscription) Open(_ context.Context, changed func(string)) (json.RawMessage, error) {
	if s.places[0] == "closed" {
		return nil, errors.New("the station is closed")
	}
	s.w.changed.Store(&changed)
	return codec.Marshal(value.Of(s.places[:1]))
}

func (s *weatherSubscription) Read(_ context.Context, name string, meta *mcp.NotificationMetaObject) (string, codec.Encoder) {
	if name == "unknown" {
		return "", nil
	}
	return "notifications/weather/changed", value.Of(report{meta, name, "red"})
}

func (s *weatherSubscription) Close() { s.w.closed <- struct{}{} }

// weatherClient returns options of a client that has declared the extension, and a channel with its
// notifications.
func weatherClient(revisions ...mcp.Revision) (*client.Options, chan string) {
	got := make(chan string, 10)
	note := func(name string) session.Handler {
		return client.Notification(func(_ context.Context, f report) error {
			got <- strings.Join([]string{name, f.Place, f.Sky}, " ")
			return nil
		})
	}
	o := &client.Options{Session: session.Options{Revisions: revisions}, Features: client.Features{Methods: map[string]session.Handler{}}}
	o.Features.Capabilities.Extensions = json.RawMessage(`{"` + weatherID + `":{}}`)
	for _, name := range []string{"now", "changed", "places_changed"} {
		o.Features.Methods["notifications/weather/"+name] = note(name)
	}
	return o, got
}

// A package outside of this module can do all that the extensions of this module do, in all
// revisions and over all transports.
func TestExtensionOfAnotherPackage(t *testing.T) {
	for _, revisions := range [][]mcp.Revision{{mcp.Revision20251125}, session.ModernRevisions()} {
		for _, over := range []string{"memory", "HTTP"} {
			t.Run(fmt.Sprint(revisions[0], " over ", over), func(t *testing.T) {
				w := &weather{closed: make(chan struct{}, 2)}
				s := server.New("s", "1", nil)
				must(0, w.extend(s))
				dial := func(o *client.Options) *client.Client { return servertest.Connect(t, s, o) }
				if over == "HTTP" {
					h := must(s.Handler(nil))
					web := httptest.NewServer(h)
					t.Cleanup(func() { s.Close(); h.Close(); web.Close() })
					dial = func(o *client.Options) *client.Client {
						c := must(client.Dial(t.Context(), web.URL, o))
						t.Cleanup(func() { c.Close() })
						return c
					}
				}
				o, got := weatherClient(revisions...)
				c := dial(o)
				ctx := t.Context()
				if declared := string(c.Server().Capabilities.Extensions); declared != `{"`+weatherID+`":{"places":true}}` {
					t.Errorf("declared %s", declared)
				}
				for name, has := range map[string]bool{"weather/get": true, "weather/put": false} {
					if s.Has(server.Feature{Kind: server.KindMethod, Name: name}) != has {
						t.Errorf("has method %s: %v", name, !has)
					}
				}
				if f, err := client.Call[report](ctx, c, "weather/get", town{"Paris"}); err != nil || f.Sky != "blue" {
					t.Errorf("got %v, %v", f, err)
				}
				for _, params := range []any{town{"nowhere"}, map[string]int{"place": 1}} {
					_, err := client.Call[report](ctx, c, "weather/get", params)
					if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeInvalidParams {
						t.Errorf("%v: got %v", params, err)
					}
				}
				without, _ := weatherClient(revisions...)
				without.Features.Capabilities.Extensions = nil
				_, err := client.Call[report](ctx, dial(without), "weather/get", town{"Paris"})
				if e, ok := errors.AsType[*jsonrpc.Error](err); !ok || e.Code != jsonrpc.CodeMethodNotFound {
					t.Errorf("without the extension: got %v", err)
				}

				short, cancel := context.WithCancel(ctx)
				ended := make(chan error)
				go func() { // ends with short
					_, err := client.Call[report](short, c, "weather/stream", town{"Rome"}, session.Timeout(0))
					ended <- err
				}()
				expect(t, got, "now Rome grey")
				cancel()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("the stream ended with %v", err)
				}

				if revisions[0].Traits().Listens {
					listenToWeather(t, c, s, w, got)
					return
				}
				s.ListChanged("notifications/weather/unknown") // ignored
				s.ListChanged("notifications/weather/places_changed")
				expect(t, got, "places_changed  ")
			})
		}
	}
}

// listenToWeather subscribes to the list and to places.
func listenToWeather(t *testing.T, c *client.Client, s *server.Server, w *weather, got chan string) {
	t.Helper()
	var filter mcp.SubscriptionFilter
	filter.Extra.Set("weatherPlacesChanged", json.RawMessage("true"))
	filter.Extra.Set("weatherPlaces", json.RawMessage(`["Oslo","elsewhere"]`))
	ctx, cancel := context.WithCancel(t.Context())
	accepted, ended := make(chan mcp.SubscriptionFilter, 1), make(chan error)
	go func() { // ends with ctx
		ended <- c.Session().Listen(ctx, filter, func(f mcp.SubscriptionFilter) { accepted <- f })
	}()
	f := <-accepted
	if places, _ := f.Extra.Get("weatherPlaces"); string(places) != `["Oslo"]` || !f.Extra.Has("weatherPlacesChanged") {
		t.Errorf("acknowledged %s", must(codec.Marshal(&f)))
	}
	s.ListChanged("notifications/weather/places_changed")
	expect(t, got, "places_changed  ")
	changed := *w.changed.Load()
	changed("unknown")
	changed("Oslo")
	expect(t, got, "changed Oslo red")
	cancel()
	<-ended
	<-w.closed
	filter.Extra.Set("weatherPlaces", json.RawMessage(`["closed"]`))
	if err := c.Session().Listen(t.Context(), filter, func(mcp.SubscriptionFilter) {}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("got %v", err)
	}
	if len(w.closed) > 0 {
		t.Error("a subscription that has failed to open is closed")
	}
}

func expect(t *testing.T, got chan string, want string) {
	t.Helper()
	if text := <-got; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
}

// Requests that stay open end with their result when the server shuts down, and count against the
// limit of subscriptions.
func TestStandingRequests(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{Limits: server.Limits{Subscriptions: 4}})
		must(0, (&weather{closed: make(chan struct{}, 2)}).extend(s))
		c := connectModern(t, s)
		const declared = `{"extensions":{"com.example/weather":{}}}`
		for range 2 {
			c.start("weather/stream", `{"place":"Rome"}`, declares(declared))
			if got := c.take(); len(got) != 1 || part(got[0], "method") != `"notifications/weather/now"` {
				t.Errorf("got %q", got)
			}
		}
		c.fails("weather/stream", `{"place":"Rome"}`, declares(declared), jsonrpc.CodeInvalidRequest, "limit of 4 subscriptions")
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		got := c.take()
		if len(got) != 2 || part(got[0], "result", "place") != `"Rome"` || part(got[0], "result", "resultType") != `"complete"` {
			t.Errorf("got %q", got)
		}
	})
}

// Subscriptions of extensions count what they name.
func TestSubscriptionsOfExtensionsAreLimited(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{Limits: server.Limits{Subscriptions: 4}})
		must(0, (&weather{closed: make(chan struct{}, 2)}).extend(s))
		c := connectModern(t, s)
		listen := func(places string) string {
			c.start("subscriptions/listen", `{"notifications":{"weatherPlaces":`+places+`}}`, declares(`{"extensions":{"com.example/weather":{}}}`))
			return strings.Join(c.take(), "")
		}
		for places, want := range map[string]string{`["a","b","c","d"]`: "limit of 4 subscriptions", `7`: "-32602"} {
			if got := listen(places); !strings.Contains(got, want) {
				t.Errorf("%s: got %s", places, got)
			}
		}
		if got := listen(`["a","b","c"]`); part(got, "params", "notifications", "weatherPlaces") != `["a"]` {
			t.Errorf("got %s", got)
		}
		if got := c.listen("1", `{"weatherPlaces":["a"]}`); part(got[0], "error", "code") == "" { // 4 are used
			t.Errorf("got %q", got)
		}
	})
}

// A client that has not declared an extension gets nothing of it, and neither does one of an earlier
// revision.
func TestListsOfExtensionsAreForTheirClients(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newServer(t, server.Options{})
		must(0, s.Extend(server.Extension{ID: "a/negotiated", Negotiated: true, Lists: map[string]string{"n": "notifications/n"}}))
		must(0, s.Extend(server.Extension{ID: "a/late", Since: mcp.Revision20260728, Lists: map[string]string{"l": "notifications/l"}}))
		must(0, s.Extend(server.Extension{ID: "a/open", Lists: map[string]string{"o": "notifications/o"}}))
		must(0, s.Extend(server.Extension{ID: "a/off", Lists: map[string]string{"off": "notifications/off"},
			Offered: func(declared *mcp.ServerCapabilities) bool { return declared.Tools != nil }}))
		got := make(chan string, 10)
		o := &client.Options{Session: session.Options{Revisions: []mcp.Revision{mcp.Revision20251125}}, Features: client.Features{Methods: map[string]session.Handler{}}}
		for _, name := range []string{"n", "l", "o", "off"} {
			o.Features.Methods["notifications/"+name] = client.Notification(func(context.Context, struct{}) error { got <- name; return nil })
		}
		c := servertest.Connect(t, s, o)
		if declared := string(c.Server().Capabilities.Extensions); declared != `{"a/negotiated":{},"a/open":{}}` {
			t.Errorf("declared %s", declared)
		}
		modern := connectModern(t, s)
		modern.expectMessages(modern.listen("1", `{"n":true,"l":true,"o":true,"off":true}`), `subscriptions/acknowledged of 1 {"l":true,"o":true}`)
		for _, name := range []string{"n", "l", "off", "o"} {
			s.ListChanged("notifications/" + name)
		}
		if name := <-got; name != "o" || len(got) > 0 {
			t.Errorf("got %s and %d more", name, len(got))
		}
		modern.expectMessages(modern.take(), "l of 1", "o of 1")
	})
}

// Changes of lists reach the clients of other processes.
func TestListsOfExtensionsPassTheBus(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		bus := &memoryBus{}
		var servers []*server.Server
		for range 2 {
			s := newServer(t, server.Options{Shared: server.Shared{Bus: bus}})
			must(0, s.Extend(server.Extension{ID: "a/open", Lists: map[string]string{"o": "notifications/o"}}))
			servers = append(servers, s)
		}
		must(0, servers[0].Start(t.Context()))
		c := connectModern(t, servers[1])
		c.listen("1", `{"o":true}`)
		servers[0].ListChanged("notifications/o")
		c.expectMessages(c.take(), "o of 1")
	})
}

func TestExtendRejectsNamesOfOthers(t *testing.T) {
	nothing := map[string]session.Handler{"m": nil}
	for _, test := range []struct {
		e    server.Extension
		want string
	}{
		{server.Extension{Methods: map[string]session.Handler{"tools/call": nil}}, `the protocol defines method "tools/call"`},
		{server.Extension{Methods: map[string]session.Handler{"tasks/get": nil}}, `the protocol defines method "tasks/get"`},
		{server.Extension{Methods: map[string]session.Handler{"tasks/start": nil}}, `method "tasks/start": the name is reserved for tasks`},
		{server.Extension{Methods: nothing}, `"m" belongs to extension "a/first"`},
		{server.Extension{Lists: map[string]string{"l": "x"}}, `"l" belongs to extension "a/first"`},
		{server.Extension{Lists: map[string]string{"x": "notifications/l"}}, `"notifications/l" belongs to extension "a/first"`},
		{server.Extension{Since: "1999-12-31"}, `unknown revision "1999-12-31"`},
		{server.Extension{Wrap: func(next session.Handler) session.Handler { return next }}, `want both Wrap and Wraps`},
	} {
		s := server.New("s", "1", nil)
		first := server.Extension{ID: "a/first", Methods: nothing, Lists: map[string]string{"l": "notifications/l"}}
		must(0, s.Extend(first))
		must(0, s.Extend(first)) // replaces it
		test.e.ID = "a/b"
		if err := s.Extend(test.e); err == nil || err.Error() != `server: extension "a/b": `+test.want || !errors.Is(s.Err(), err) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

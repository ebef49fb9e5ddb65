package streamable_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/eventstream"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

var (
	conversations    = flag.Int("conversations", 100, "number of conversations of TestRandomConversations")
	conversationSeed = flag.Int("conversationseed", 0, "seed of the first conversation of that test; the next ones have the next seeds")
)

// A client sends requests alone and in batches, cancels some, and breaks streams and resumes them.
// Handlers send notifications during and after their requests, and requests to the client. Each
// request has one response, and each message arrives once, on a stream on which it may.
func TestRandomConversations(t *testing.T) {
	for seed := *conversationSeed; seed < *conversationSeed+*conversations; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newConversation(t, uint64(seed)).run() })
		})
	}
}

// standing is the place of messages of the stream that belongs to no request.
const standing = "standing stream"

// conversation is one session of TestRandomConversations.
type conversation struct {
	*testServer
	t       *testing.T
	seed    uint64
	random  *rand.Rand
	batches bool
	id      string // of the session

	mu        sync.Mutex
	sent      map[string]bool     // notifications; true if they were sent without an error
	received  map[string][]string // the places at which each notification arrived
	responses map[int]int         // by id of the request
	cancelled map[int]bool        // by id of the request
	pings     map[string]int      // requests to the client, by id
}

func newConversation(t *testing.T, seed uint64) *conversation {
	c := &conversation{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 1)),
		sent: map[string]bool{}, received: map[string][]string{},
		responses: map[int]int{}, cancelled: map[int]bool{}, pings: map[string]int{},
	}
	handshake := initialize
	if c.batches = c.random.IntN(2) == 0; c.batches {
		handshake = initializeOld
	}
	tools := newTools()
	tools.configure = func(cfg *session.Options) { cfg.Handler = c.handle }
	var o streamable.HandlerOptions
	o.Streams.After = []time.Duration{0, time.Second, -1, -1}[c.random.IntN(4)]
	c.testServer = serveOver(t, o, tools, plain)
	c.id = c.openSession(handshake)
	return c
}

// handle serves a request to the server.
func (c *conversation) handle(ctx context.Context, req *session.Request) (codec.Encoder, error) {
	if req.Method != "tools/call" {
		return nil, nil
	}
	var params struct {
		Name      string
		Arguments struct{ N int }
	}
	if err := json.Unmarshal(req.Params, &params); err != nil {
		return nil, err
	}
	n := params.Arguments.N
	during := func(i int) { c.notify(ctx, req, fmt.Sprintf("during-%d-%d", n, i)) }
	after := func(i int) { c.notify(context.WithoutCancel(ctx), req, fmt.Sprintf("after-%d-%d", n, i)) }
	switch params.Name {
	case "notify":
		for i := range 4 {
			during(i)
			if i%2 == 1 {
				time.Sleep(time.Duration(n%3) * time.Second)
			}
		}
	case "notifyLate":
		go func() {
			for i := range 3 {
				time.Sleep(time.Second)
				after(i)
			}
		}()
		time.Sleep(time.Duration(n%4) * 500 * time.Millisecond)
	case "wait":
		during(0)
		select {
		case <-ctx.Done():
			after(0)
			return nil, ctx.Err()
		case <-time.After(7 * time.Second):
		}
		during(1)
	case "ping":
		if _, err := req.Session.Call(ctx, "ping", nil); err != nil && ctx.Err() == nil {
			c.t.Errorf("request %d cannot call the client: %v", n, err)
		}
	}
	return &mcp.CallToolResult{Content: []mcp.ContentBlock{}}, nil
}

func (c *conversation) notify(ctx context.Context, req *session.Request, name string) {
	err := req.Session.Notify(ctx, "notifications/message", &mcp.LoggingMessageNotificationParams{Level: "info", Data: []byte(`"` + name + `"`)})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[name] = err == nil
}

// run sends the requests and checks what has arrived.
func (c *conversation) run() {
	var streams, posts sync.WaitGroup
	get := c.do("GET", "", "MCP-Session-Id", c.id)
	streams.Go(func() { c.read(c.random, get, standing) })
	requests := 0
	for range 12 {
		posts.Go(c.post(&requests))
		switch c.random.IntN(4) {
		case 0, 1:
			time.Sleep(time.Duration(c.random.IntN(1500)) * time.Millisecond)
		case 2:
			synctest.Wait()
		}
		if c.random.IntN(3) == 0 {
			c.cancel(max(1, requests-c.random.IntN(4)))
		}
	}
	posts.Wait() // a POST that hangs is a deadlock of the bubble
	time.Sleep(time.Minute)
	c.check(requests)
	c.stop()
	streams.Wait()
}

// post returns a function that sends one to three new requests and reads what comes back. It adds
// their number to requests, which is the newest id.
func (c *conversation) post(requests *int) func() {
	count := 1
	if c.batches {
		count += c.random.IntN(3)
	}
	place := fmt.Sprintf("POST of request %d", *requests+1)
	var calls []string
	for range count {
		*requests++
		calls = append(calls, call(*requests, []string{"return", "notify", "notifyLate", "wait", "ping"}[c.random.IntN(5)]))
	}
	body := calls[0]
	if count > 1 || c.batches && c.random.IntN(3) == 0 {
		body = "[" + strings.Join(calls, ",") + "]"
	}
	random := rand.New(rand.NewPCG(c.seed, uint64(*requests)))
	return func() { c.read(random, c.do("POST", body, "MCP-Session-Id", c.id), place) }
}

func (c *conversation) cancel(id int) {
	c.mu.Lock()
	c.cancelled[id] = true
	c.mu.Unlock()
	c.status("POST", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id), "MCP-Session-Id", c.id)
}

// read takes the messages of a response. It breaks streams at random, and resumes them after a while.
func (c *conversation) read(random *rand.Rand, response *http.Response, place string) {
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted {
		text, _ := io.ReadAll(response.Body)
		c.t.Errorf("%s: status %d after event %q: %s", place, response.StatusCode, response.Request.Header.Get("Last-Event-ID"), text)
		return
	}
	if response.Header.Get("Content-Type") != "text/event-stream" {
		if text, _ := io.ReadAll(response.Body); len(text) > 0 {
			c.take(text, place)
		}
		return
	}
	var last string
	for events := eventstream.NewReader(response.Body, 1<<20); ; {
		e, err := events.Next()
		if err != nil {
			return
		}
		if e.ID != "" {
			last = e.ID
		}
		if len(e.Data) > 0 {
			c.take(e.Data, place)
		}
		if last != "" && place != standing && random.IntN(4) == 0 {
			response.Body.Close()
			time.Sleep(time.Duration(random.IntN(3)) * time.Second)
			c.read(random, c.do("GET", "", "MCP-Session-Id", c.id, "Last-Event-ID", last), place)
			return
		}
	}
}

// take notes where each message of a text has arrived, and answers requests.
func (c *conversation) take(text []byte, place string) {
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil {
		list = []json.RawMessage{text}
	}
	for _, one := range list {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Data string }
			Error  json.RawMessage
		}
		if err := json.Unmarshal(one, &m); err != nil {
			c.t.Errorf("%s: %q: %v", place, one, err)
		}
		if m.Method == "ping" {
			if status := c.status("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID), "MCP-Session-Id", c.id); status != http.StatusAccepted {
				c.t.Errorf("a response has status %d", status)
			}
		}
		c.mu.Lock()
		switch {
		case m.Method == "ping":
			c.pings[string(m.ID)]++
		case m.Method != "":
			c.received[m.Params.Data] = append(c.received[m.Params.Data], place)
		default:
			id, _ := strconv.Atoi(string(m.ID))
			c.responses[id]++
			if place == standing || m.Error != nil && !c.cancelled[id] {
				c.t.Errorf("%s: %s", place, one)
			}
		}
		c.mu.Unlock()
	}
}

// check compares what has arrived with what was sent.
func (c *conversation) check(requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := 1; id <= requests; id++ {
		if n := c.responses[id]; n > 1 || n == 0 && !c.cancelled[id] {
			c.t.Errorf("request %d has %d responses; cancelled: %t", id, n, c.cancelled[id])
		}
	}
	for name, sent := range c.sent {
		places := c.received[name]
		if sent && len(places) != 1 {
			c.t.Errorf("%s arrived at %q", name, places)
		}
		parts := strings.Split(name, "-")
		id, _ := strconv.Atoi(parts[1])
		if parts[0] == "during" && len(places) == 1 && places[0] == standing && !c.cancelled[id] {
			c.t.Errorf("%s arrived at the %s", name, standing)
		}
	}
	for id, n := range c.pings {
		if n != 1 {
			c.t.Errorf("request %s to the client arrived %d times", id, n)
		}
	}
}

package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/proxy"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// fault is what an upstream does wrong.
type fault int32

const (
	none     fault = iota
	slow           // responds after 30 seconds
	stuck          // responds to pings only
	hung           // reads, and responds to nothing
	blocked        // reads nothing
	flooding       // sends many notifications
	dying          // ends after two seconds
	garbled        // sends messages that are not valid
	faults
)

func (f fault) String() string {
	return [faults]string{"none", "slow", "stuck", "hung", "blocked", "flooding", "dying", "garbled"}[f]
}

// latency is how long an upstream without a fault takes to serve a request.
const latency = 10 * time.Millisecond

// faulty is an upstream with features of all kinds, whose requests take latency, and whose fault
// can be set at any time.
type faulty struct {
	*upstream
	name  string
	fault atomic.Int32
	open  atomic.Int32 // connections
}

func newFaulty(t *testing.T, name string, of era, quiet bool) *faulty {
	t.Helper()
	f := &faulty{name: name}
	cfg := of.serving(&server.Options{Tasks: task.Options{Store: memory.New()}})
	cfg.Session.Principal = "proxy"
	cfg.Session.Hooks.Receiving = []session.Middleware{func(next session.Handler) session.Handler {
		return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			if req.IsNotification() || req.Method == mcp.MethodSubscriptionsListen {
				return next(ctx, req)
			}
			wait := latency
			switch fault(f.fault.Load()) {
			case slow:
				wait = 30 * time.Second
			case stuck:
				if req.Method != mcp.MethodServerDiscover && req.Method != mcp.MethodInitialize {
					<-ctx.Done()
					return nil, context.Cause(ctx)
				}
			}
			select {
			case <-time.After(wait):
				return next(ctx, req)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}}
	if quiet { // announces no changes, so that its lists expire
		cfg.Features.Capabilities = func(c *mcp.ServerCapabilities) {
			c.Tools, c.Prompts = new(mcp.ServerCapabilitiesTools), new(mcp.ServerCapabilitiesPrompts)
			if c.Resources != nil {
				c.Resources.ListChanged = nil
			}
		}
	}
	f.upstream = newUpstream(t, name, cfg)
	s := f.Server
	addTool(t, s, "echo", echo(name))
	addAsking(t, s)
	addTool(t, s, "log", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		return name, errors.Join(c.Progress(1, 2, name), c.Log(ctx, mcp.LoggingLevelError, "", name))
	})
	addTool(t, s, "who", func(ctx context.Context, c *server.Call, _ struct{}) (string, error) {
		return c.ClientInfo().Name, nil
	}, required)
	addResource(t, s, "memo://"+name, name)
	addTemplate(t, s, name+":///{x}", "1", name, server.Complete("x", server.OneOf("1", "2")))
	addTemplate(t, s, "{+x}", "hidden:///"+name, name)
	err := server.AddPrompt(s, "ask", "", func(context.Context, *server.Call, map[string]string) (string, error) { return name, nil }).Err()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *faulty) set(x fault) { f.fault.Store(int32(x)) }

// as returns the upstream for a proxy.
func (f *faulty) as() proxy.Upstream {
	return proxy.Upstream{Name: f.name, Prefix: f.name + "_", Connect: func(ctx context.Context) (transport.Conn, error) {
		if fault(f.fault.Load()) == dying {
			return nil, errors.New("has ended")
		}
		conn, err := f.connect(ctx)
		if err != nil {
			return nil, err
		}
		f.open.Add(1)
		c := &faultyConn{Conn: conn, f: f, in: make(chan transport.Message), ended: make(chan struct{}), done: make(chan struct{})}
		c.group.Go(c.pump)
		c.group.Go(c.act)
		return c, nil
	}}
}

// faultyConn is the proxy's end of a connection to a faulty upstream.
type faultyConn struct {
	transport.Conn
	f     *faulty
	in    chan transport.Message
	ended chan struct{} // closed when err is set
	err   error
	done  chan struct{} // closed by Close
	once  sync.Once
	group sync.WaitGroup
}

func (c *faultyConn) pump() {
	defer close(c.ended)
	for {
		m, err := c.Conn.Read()
		if err != nil {
			c.err = err
			return
		}
		if fault(c.f.fault.Load()) == garbled {
			for _, text := range []string{`}`, `{"jsonrpc":"2.0","id":999,"result":{}}`, `{"jsonrpc":"2.0","id":1,"method":"none"}`, `{"jsonrpc":"2.0","method":"notifications/none","params":{}}`} {
				c.push(text)
			}
		}
		select {
		case c.in <- m:
		case <-c.done:
			return
		}
	}
}

func (c *faultyConn) push(text string) {
	select {
	case c.in <- transport.Message{Text: []byte(text)}:
	case <-c.done:
	}
}

// act does what the fault wants every 100 milliseconds.
func (c *faultyConn) act() {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	deadline := 0
	for {
		select {
		case <-ticker.C:
		case <-c.done:
			return
		}
		switch fault(c.f.fault.Load()) {
		case flooding:
			for _, method := range []string{"tools/list_changed", "resources/list_changed", "prompts/list_changed"} {
				for range 4 {
					c.push(`{"jsonrpc":"2.0","method":"notifications/` + method + `"}`)
				}
			}
			c.push(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"memo://` + c.f.name + `"}}`)
			c.push(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
		case dying:
			if deadline++; deadline >= 20 {
				c.Conn.Close()
				return
			}
		}
	}
}

func (c *faultyConn) Read() (transport.Message, error) {
	select {
	case m := <-c.in:
		return m, nil
	case <-c.ended:
		return transport.Message{}, c.err
	case <-c.done:
		return transport.Message{}, fmt.Errorf("test: %w", transport.ErrClosed)
	}
}

func (c *faultyConn) Write(ctx context.Context, m transport.Message) error {
	switch fault(c.f.fault.Load()) {
	case hung:
		return nil
	case blocked:
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.done:
			return transport.ErrClosed
		}
	}
	return c.Conn.Write(ctx, m)
}

func (c *faultyConn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.Conn.Close()
		c.group.Wait()
		c.f.open.Add(-1)
	})
	return nil
}

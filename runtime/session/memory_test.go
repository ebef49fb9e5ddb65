package session_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// A peer sends the most expensive messages, and reads nothing. The session holds at most twice the
// limit.
func TestHostilePeerCannotExceedLimits(t *testing.T) {
	const limit = 4 << 20
	large := strings.Repeat(" ", 1<<20)
	text := strings.Repeat("x", 1<<20)
	blocked := func(ctx context.Context, _ *session.Request) (codec.Encoder, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	readMeta := func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		req.Meta()
		return blocked(ctx, req)
	}
	var members strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&members, `"a%d":1,`, i)
	}
	answers := func(context.Context, *session.Request) (codec.Encoder, error) {
		return session.Raw(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`), nil
	}
	messages := 30 // each of a megabyte
	if testing.Short() {
		messages = 12
	}
	for _, c := range []struct {
		name    string
		batches bool
		handler session.Handler
		message func(i int) string
	}{
		{"requests", false, blocked, func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s"method":"x"}`, i, large) }},
		{"members of _meta", false, readMeta, func(i int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x","params":{"_meta":{%s"b":1}}}`, i, members.String())
		}},
		{"answers", false, answers, func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, i) }},
		{"requests and answers", false, answers, func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s"method":"x"}`, i, large) }},
		{"notifications", false, blocked, func(int) string { return `{"jsonrpc":"2.0",` + large + `"method":"notifications/x","params":{}}` }},
		{"ids of pings", false, nil, func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d %s","method":"ping"}`, i, text) }},
		{"ids of requests", false, blocked, func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d %s","method":"x"}`, i, text) }},
		{"numbers as ids", false, blocked, func(i int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":1%d%s,"method":"x"}`, i, strings.Repeat("0", 1<<20))
		}},
		{"names of methods", false, nil, func(i int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s"}`, i, text) }},
		{"names of members", false, nil, func(i int) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x","params":{"%s":}}`, i, text)
		}},
		{"answers of batches", true, answers, func(i int) string {
			return fmt.Sprintf(`[{"jsonrpc":"2.0","id":"a%d","method":"x"},{"jsonrpc":"2.0","id":"b%[1]d","method":"x"}]`, i)
		}},
		{"notifications of batches", true, blocked, func(int) string {
			return `[{"jsonrpc":"2.0","method":"notifications/x","params":{}},` + large + `{"jsonrpc":"2.0","id":1,"method":"ping"}]`
		}},
	} {
		t.Run(c.name, bubble(func(t *testing.T) {
			x, y := inmemory.Pair(inmemory.Options{MaxQueue: 64 << 10, StallTimeout: time.Hour})
			defer x.Close()
			s := session.Serve(y, nil, &session.Options{Limits: session.Limits{Bytes: limit}, Handler: c.handler, Logger: quiet()})
			defer s.Close()
			send := func(text string) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				// Fails once the session has stopped reading.
				x.Write(ctx, transport.Message{Text: []byte(text)})
				synctest.Wait()
			}
			revision := "2025-11-25"
			if c.batches {
				revision = "2025-03-26"
			}
			send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
			send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			before := heap()
			for i := range messages {
				send(c.message(i + 1))
			}
			if held := heap() - before; held > 2*limit+1<<20 {
				t.Errorf("the session holds %d MiB", held>>20)
			}
			runtime.KeepAlive(s)
		}))
	}
}

// heap returns how many bytes are in use.
func heap() int {
	runtime.GC()
	runtime.GC() // the second run also frees the contents of pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Many short answers that the peer does not read stay within the limits, too.
func TestOwnAnswersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := inmemory.Pair(inmemory.Options{MaxQueue: 10_000, StallTimeout: time.Hour})
		defer x.Close()
		s := session.Serve(y, nil, nil)
		defer s.Close()
		before := heap()
		id := strings.Repeat("i", 1000)
		for i := range 20_000 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := x.Write(ctx, transport.Message{Text: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"%d %s","method":"ping"}`, i, id)})
			cancel()
			if err != nil {
				break
			}
		}
		if held := heap() - before; held > 16<<20 {
			t.Errorf("the session holds %d MiB", held>>20)
		}
	})
}

func TestPendingAnswersCountAsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := inmemory.Pair(inmemory.Options{MaxQueue: 1000, StallTimeout: time.Hour})
		defer x.Close()
		var served atomic.Int32
		s := session.Serve(y, nil, &session.Options{Limits: session.Limits{Requests: 8}, Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			if !req.IsNotification() {
				served.Add(1)
			}
			return session.Raw(`{"text":"` + strings.Repeat("x", 2000) + `"}`), nil
		}})
		defer s.Close()
		send := func(text string) {
			if err := x.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		for i := range 500 {
			send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, i+1))
		}
		if n := served.Load(); n > 2*8 {
			t.Errorf("%d requests were served, though no answer was read", n)
		}
	})
}

func TestInitializeIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := serve(t, &session.Options{Limits: session.Limits{Initialize: 300}})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"` + strings.Repeat("c", 300) + `","version":"1"}}}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32602}}
		` + handshake)
	})
	synctest.Test(t, func(t *testing.T) {
		_, p := serve(t, nil)
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"` + strings.Repeat("c", session.DefaultMaxInitialize) + `","version":"1"}}}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32602}}
		` + handshake)
	})
}

// The session retains and repeats only bounded parts of a message.
func TestLongIDsMethodsAndTokensAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 1025)
		_, p := open(t, &session.Options{Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			peer, _ := session.PeerFrom(ctx)
			return nil, peer.Report(session.Progress{Value: 1})
		}})
		p.talk(`
			> {"jsonrpc":"2.0","id":"` + long + `","method":"x"}
			< {"jsonrpc":"2.0","error":{"code":-32600}}
			> {"jsonrpc":"2.0","id":"` + long + `","method":"ping"}
			< {"jsonrpc":"2.0","error":{"code":-32600}}
			> {"jsonrpc":"2.0","id":1,"method":"` + long + `"}
			< {"jsonrpc":"2.0","id":1,"error":{"code":-32601}}
			> {"jsonrpc":"2.0","method":"` + long + `"}
			> {"jsonrpc":"2.0","id":2,"method":"x","params":{"_meta":{"progressToken":"` + long + `"}}}
			< {"jsonrpc":"2.0","id":2,"result":{}}
			> {"jsonrpc":"2.0","id":3,"method":"x","params":{"_meta":{"progressToken":"short"}}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"short","progress":1}}
			< {"jsonrpc":"2.0","id":3,"result":{}}
		`)
	})
}

// The transport alone limits the length of a message, even above the default limit of a Reader.
func TestTransportLimitsMessageLength(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some hundred megabytes")
	}
	c, _ := pair(t, nil, func(_ context.Context, req *session.Request) (codec.Encoder, error) {
		return session.Raw(req.Params), nil
	})
	raw, err := c.Call(t.Context(), "x", session.Raw(`{"text":"`+strings.Repeat("x", wire.DefaultSize)+`"}`))
	if err != nil || len(raw) <= wire.DefaultSize {
		t.Errorf("got %d bytes, %v", len(raw), err)
	}
}

// All requests are within the limits. They end at the same time, and their answers together are
// above the limits.
func TestAnswersAboveLimitAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := inmemory.Pair(inmemory.Options{MaxQueue: 1000, StallTimeout: time.Hour})
		defer x.Close()
		release := make(chan struct{})
		s := session.Serve(y, nil, &session.Options{Limits: session.Limits{Bytes: 1 << 20}, Logger: quiet(), Handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			<-release
			return session.Raw(`{"text":"` + strings.Repeat("x", 100<<10) + `"}`), nil
		}})
		defer s.Close()
		send := func(text string) {
			if err := x.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		x.Read()
		const n = 100
		for i := range n {
			send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, i+1))
		}
		close(release)
		synctest.Wait()
		results, dropped := 0, 0
		for range n {
			m, err := x.Read()
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(m.Text), fmt.Sprint(session.CodeOverloaded)) {
				dropped++
			} else {
				results++
			}
		}
		if results > 12 || results+dropped != n {
			t.Errorf("%d results of 100 KiB and %d errors arrived, with a limit of 1 MiB", results, dropped)
		}
	})
}

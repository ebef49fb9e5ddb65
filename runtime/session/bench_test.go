package session_test

import (
	"encoding/json"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// BenchmarkCall measures a plain tools/call with both sides in one process.
func BenchmarkCall(b *testing.B) {
	for _, way := range []struct {
		name string
		pair func(b *testing.B) (client, server transport.Conn)
	}{
		{"memory", func(*testing.B) (transport.Conn, transport.Conn) { return memoryPair() }},
		{"pipes", pipePair},
	} {
		for _, callers := range []int{1, 64} {
			b.Run(way.name+"/"+strconv.Itoa(callers)+" callers", func(b *testing.B) {
				client, server := way.pair(b)
				c, _ := sessiontest.Connect(b, client, server, sessiontest.Side{}, toolServer(sessiontest.ServerHandler(tools{}, nil)))
				params := &mcp.CallToolRequestParams{Name: "echo", Arguments: json.RawMessage(`{"city":"Oslo","days":3}`)}
				b.ReportAllocs()
				parallel(b, callers, func() {
					if _, err := (mcp.ToServer{Caller: c}).CallTool(b.Context(), params); err != nil {
						b.Error(err)
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
			})
		}
	}
}

func memoryPair() (transport.Conn, transport.Conn) {
	x, y := inmemory.Pair(inmemory.Options{})
	return x, y
}

func pipePair(b *testing.B) (transport.Conn, transport.Conn) {
	r1, w1, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	r2, w2, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	return stdio.New(r1, w2, stdio.Options{}), stdio.New(r2, w1, stdio.Options{})
}

// parallel runs f b.N times in n goroutines.
func parallel(b *testing.B, n int, f func()) {
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ResetTimer()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				f()
			}
		})
	}
	wg.Wait()
	b.StopTimer()
}

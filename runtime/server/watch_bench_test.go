package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// BenchmarkWatchedTasks has 100 subscriptions that watch 1000 tasks each. All tasks change their
// status message a few times, and then end. An operation is the end of all tasks, until every
// subscription has received the last notification. The benchmark fails if memory grows between the
// first change and the last one.
func BenchmarkWatchedTasks(b *testing.B) {
	const listeners, each, changes = 100, 1000, 4
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	for b.Loop() {
		b.StopTimer()
		store := memory.New()
		s := newServer(b, server.Options{Limits: server.Limits{Subscriptions: 1e6, SubscriptionBytes: 1 << 30},
			Tasks: task.Options{Store: store, Limits: task.Limits{Tasks: -1, Bytes: -1, Burst: -1}}, Session: session.Options{Principal: "ann"}})
		if err := s.Start(b.Context()); err != nil {
			b.Fatal(err)
		}
		var change [changes]chan struct{} // closed to change all tasks; the last one ends them
		for i := range change {
			change[i] = make(chan struct{})
		}
		ids := make([]string, listeners*each)
		for i := range ids {
			created, err := s.Tasks().Create(b.Context(), task.Request{Principal: "ann", Method: mcp.MethodToolsCall, Params: json.RawMessage(`{}`), Protocol: "2026-07-28",
				Work: func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					for n, c := range change {
						<-c
						if n == changes-1 {
							break
						}
						if err := run.SetStatusMessage(ctx, fmt.Sprint("change ", n)); err != nil {
							return nil, err
						}
					}
					return session.Raw(`{"content":[]}`), nil
				}})
			if err != nil {
				b.Fatal(err)
			}
			ids[i] = created.TaskID
		}
		before := heap()
		var received atomic.Int64
		all := make(chan struct{}, 1) // signals that every subscription has received a change of each task
		var conns []transport.Conn
		for i := range listeners {
			here, there := inmemory.Pair(inmemory.Options{})
			if _, err := s.Serve(there); err != nil {
				b.Fatal(err)
			}
			conns = append(conns, here)
			list, _ := json.Marshal(ids[i*each : (i+1)*each])
			text := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":%s},"_meta":{%s"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, list, withExtension)
			if err := here.Write(b.Context(), transport.Message{Text: []byte(text)}); err != nil {
				b.Fatal(err)
			}
			if _, err := here.Read(); err != nil { // the acknowledgment
				b.Fatal(err)
			}
			go func() { // ends with the connection
				for {
					if _, err := here.Read(); err != nil {
						return
					}
					if received.Add(1)%(listeners*each) == 0 {
						all <- struct{}{}
					}
				}
			}()
		}
		watched := heap()
		var first, last uint64
		for n, c := range change[:changes-1] {
			close(c)
			<-all
			if last = heap(); n == 0 {
				first = last
			}
		}
		if last > first+first/10 {
			b.Errorf("memory has grown from %d to %d bytes", first, last)
		}
		b.StartTimer()
		start := time.Now()
		close(change[changes-1])
		<-all
		b.ReportMetric(float64(watched-before)/float64(listeners*each), "bytes/watch")
		b.ReportMetric(float64(first)/1e6, "MB-first-change")
		b.ReportMetric(float64(last)/1e6, "MB-last-change")
		b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(listeners*each), "ns/task")
		b.StopTimer()
		for _, c := range conns {
			c.Close()
		}
		s.Close()
		b.StartTimer()
	}
}

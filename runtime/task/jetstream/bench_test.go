package jetstream_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/natstest"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// BenchmarkStore compares stores: calls one after the other, and 16 at once. Servers and their
// client share the processors of the machine.
func BenchmarkStore(b *testing.B) {
	for _, store := range []struct {
		name string
		open func(b *testing.B) task.Store
	}{
		{"memory", func(b *testing.B) task.Store { return memory.New() }},
		{"bolt", func(b *testing.B) task.Store {
			s, err := bolt.Open(filepath.Join(b.TempDir(), "tasks"))
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { s.Close() })
			return s
		}},
		{"one node", func(b *testing.B) task.Store {
			return open(b, natstest.Run(b, 1).JetStream(b), jetstream.Options{})
		}},
		{"one node, in memory", func(b *testing.B) task.Store {
			return open(b, natstest.Run(b, 1).JetStream(b), jetstream.Options{Storage: natsjs.MemoryStorage})
		}},
		{"three nodes", func(b *testing.B) task.Store {
			return open(b, natstest.Run(b, 3).JetStream(b), jetstream.Options{Replicas: 3})
		}},
		{"three nodes, four partitions", func(b *testing.B) task.Store {
			return open(b, natstest.Run(b, 3).JetStream(b), jetstream.Options{Replicas: 3, Partitions: 4})
		}},
	} {
		b.Run(store.name, func(b *testing.B) {
			s := store.open(b)
			var ids atomic.Int64
			create := func(b *testing.B) task.Record {
				r := record(fmt.Sprint("task-", ids.Add(1)))
				r.TTL, r.Owner = time.Hour, fmt.Sprint("owner ", ids.Load()%100)
				r.Params = json.RawMessage(`{"name":"n","arguments":{"text":"` + strings.Repeat("x", 200) + `"}}`)
				r.Durable = &task.Durable{Version: "v"}
				r, err := s.Create(b.Context(), r)
				if err != nil {
					b.Error(err)
				}
				return r
			}
			update := func(b *testing.B, r *task.Record) {
				r.StatusMessage += "."
				if len(r.StatusMessage) > 20 {
					r.StatusMessage = ""
				}
				var err error
				if *r, err = s.Update(b.Context(), *r); err != nil {
					b.Error(err)
				}
			}
			step := func(b *testing.B, r *task.Record) {
				d := *r.Durable
				d.Recorded++
				d.Entries = []task.Entry{{Kind: 2, Key: fmt.Sprint("step ", d.Recorded), Occurrence: 1, Result: json.RawMessage(`{"some":"result of a step, with a hundred bytes of text in all, or about as many as that"}`)}}
				r.Durable = &d
				update(b, r)
			}
			get := func(b *testing.B, r *task.Record) {
				if _, err := s.Get(b.Context(), r.ID); err != nil {
					b.Error(err)
				}
			}
			list := func(b *testing.B, r *task.Record) {
				if _, err := s.List(b.Context(), r.Owner, 0, 20); err != nil {
					b.Error(err)
				}
			}
			for _, operation := range []struct {
				name string
				call func(*testing.B, *task.Record)
			}{
				{"create", func(b *testing.B, _ *task.Record) { create(b) }},
				{"update", update}, {"step", step}, {"get", get}, {"list 20", list},
			} {
				b.Run(operation.name, func(b *testing.B) {
					r := create(b)
					for b.Loop() {
						operation.call(b, &r)
					}
				})
				b.Run(operation.name+", 16 at once", func(b *testing.B) {
					b.SetParallelism((15 + runtime.GOMAXPROCS(0)) / runtime.GOMAXPROCS(0))
					b.RunParallel(func(p *testing.PB) {
						r := create(b)
						for p.Next() {
							operation.call(b, &r)
						}
					})
				})
			}
		})
	}
}

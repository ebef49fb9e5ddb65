package jetstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
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

// BenchmarkEndOfMember measures the reads of a member after the end of another member that held 100
// of many tasks: the index of holders and, for comparison, all briefs.
func BenchmarkEndOfMember(b *testing.B) {
	for _, tasks := range []int{2_000, 20_000, 200_000} {
		b.Run(fmt.Sprint(tasks, " tasks"), func(b *testing.B) {
			c := natstest.Run(b, 1)
			s := open(b, c.JetStream(b), jetstream.Options{Storage: natsjs.MemoryStorage})
			other := open(b, c.JetStream(b), same(s))
			join := func(s *jetstream.Store) fleets.Membership[task.Member, task.Record] {
				m, err := s.Join(b.Context(), task.Member{Lease: time.Hour}, fleets.Events{Departed: func() {}, Offered: func(string) {}})
				if err != nil {
					b.Fatal(err)
				}
				return m
			}
			m, ended := join(s), join(other)
			var next atomic.Int64
			var group sync.WaitGroup
			for range 64 {
				group.Go(func() {
					for i := int(next.Add(1)); i <= tasks; i = int(next.Add(1)) {
						r := record(fmt.Sprint("task-", i))
						r.Owner, r.Claim = fmt.Sprint("owner ", i%100), task.Claim{Member: m.Self().ID, Epoch: 1}
						if i <= 100 {
							r.Claim.Member = ended.Self().ID
						}
						if _, err := s.Create(b.Context(), r); err != nil {
							b.Error(err)
						}
					}
				})
			}
			group.Wait()
			ended.Leave(b.Context())
			measure := func(name string, iterate func(ctx context.Context) iter.Seq2[task.Record, error]) {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						n := 0
						for r, err := range iterate(b.Context()) {
							if err != nil {
								b.Fatal(err)
							}
							if r.Claim.Member == ended.Self().ID {
								n++
							}
						}
						if n != 100 {
							b.Fatalf("%d orphans", n)
						}
					}
				})
			}
			measure("Orphans", m.Orphans)
			measure("Scan", s.Scan)
		})
	}
}

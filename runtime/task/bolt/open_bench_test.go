package bolt

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// BenchmarkOpen measures how long it takes to open a file with finished tasks. Half as many have
// expired, so that the file has free pages.
func BenchmarkOpen(b *testing.B) {
	for _, tasks := range []int{200_000, 1_000_000} {
		b.Run(fmt.Sprint("tasks ", tasks), func(b *testing.B) {
			path, at := filepath.Join(b.TempDir(), "tasks"), time.UnixMicro(0).UTC()
			s, err := Open(path)
			if err != nil {
				b.Fatal(err)
			}
			s.file.db.NoSync = true
			created := 0
			create := func(n int, ttl time.Duration) {
				for end := created + n; created < end; {
					err := s.file.db.Update(func(tx *bbolt.Tx) error {
						buckets, err := bucketsOf(tx)
						for n := 0; n < maxBatch && created < end && err == nil; n++ {
							created++
							err = buckets.create(&task.Record{
								ID: rand.Text(), Owner: fmt.Sprint("principal ", created%100), Method: "tools/call", Status: "completed",
								Created: at, Updated: at, TTL: ttl, Result: make([]byte, 300),
							})
						}
						return err
					})
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			create(tasks/2, time.Second)
			create(tasks, time.Hour)
			for dropped := []task.Record{{}}; len(dropped) > 0; {
				if dropped, _, err = s.Sweep(b.Context(), at.Add(time.Minute), 4096); err != nil {
					b.Fatal(err)
				}
			}
			s.file.db.Sync()
			s.Close()
			for b.Loop() {
				if s, err = Open(path); err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
			if info, err := os.Stat(path); err == nil {
				b.ReportMetric(float64(info.Size())/1e6, "MB")
			}
		})
	}
}

package auth_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
)

// The cache is bounded: 100,000 principals, with tokens of 900 bytes, use as much memory as 10,000.
func BenchmarkPrincipals(b *testing.B) {
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p := newProtector(b, auth.Options{CacheTTL: time.Hour, Verifier: auth.VerifierFunc(func(_ context.Context, c *auth.Credentials) (*auth.Identity, error) {
					i := granted(strings.Clone(c.Token.Reveal()[:10]))
					return &i, nil
				})})
				before := heap()
				padding := strings.Repeat("x", 890)
				for k := range n {
					if _, err := p.Authenticate(post("Authorization", fmt.Sprintf("Bearer %010d%s", k, padding))); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
				runtime.KeepAlive(p)
			}
		})
	}
}

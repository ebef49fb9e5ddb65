package auth_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
)

// Clients with made-up tokens start a limited number of verifications at once, and those of one
// network do not keep out others.
func TestVerificationsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		p := newProtector(t, auth.Options{CacheTTL: time.Hour, MaxVerifications: 2, Verifier: auth.VerifierFunc(func(ctx context.Context, c *auth.Credentials) (*auth.Identity, error) {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(time.Second)
			if c.Token.Reveal() == "good" {
				i := granted("ann")
				return &i, nil
			}
			return nil, auth.ErrInvalidToken
		})})
		type outcome struct {
			status int
			after  time.Duration
		}
		try := func(from, token string, outcomes chan<- outcome) {
			go func() {
				begun := time.Now()
				r := post("Authorization", "Bearer "+token)
				r.RemoteAddr = from
				_, err := p.Authenticate(r)
				o := outcome{200, time.Since(begun)}
				if denied, ok := errors.AsType[*auth.Denied](err); ok {
					o.status = denied.Status
				}
				outcomes <- o
			}()
			synctest.Wait()
		}
		count := func(outcomes <-chan outcome, n int) map[int]int {
			statuses := map[int]int{}
			for range n {
				statuses[(<-outcomes).status]++
			}
			return statuses
		}
		strangers, ann := make(chan outcome, 100), make(chan outcome, 1)
		for n := range 30 {
			try(fmt.Sprintf("203.0.113.%d:1", n), fmt.Sprint("made-up-", n), strangers)
		}
		try("198.51.100.1:1", "good", ann)
		if got := count(strangers, 30); got[401] != 10 || got[503] != 20 { // 10 are half of 2 running and 18 waiting
			t.Errorf("strangers: %v", got)
		}
		if got := <-ann; got.status != 200 || got.after != 6*time.Second {
			t.Errorf("another client: %+v", got)
		}
		if most.Load() != 2 {
			t.Errorf("%d verifications at once", most.Load())
		}
		for n := range 40 { // of many networks
			try(fmt.Sprintf("203.0.%d.1:1", n), fmt.Sprint("other-", n), strangers)
		}
		if got := count(strangers, 40); got[401] != 20 || got[503] != 20 {
			t.Errorf("strangers of many networks: %v", got)
		}
		time.Sleep(time.Minute)
		try("203.0.113.1:1", "good", ann)
		if got := <-ann; got.status != 200 || got.after != 0 {
			t.Errorf("afterwards: %+v", got)
		}
	})
}

// A verification does not wait for ever, nor after its request has ended.
func TestWaitForVerificationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		p := newProtector(t, auth.Options{CacheTTL: -1, MaxVerifications: 1, Verifier: auth.VerifierFunc(func(ctx context.Context, c *auth.Credentials) (*auth.Identity, error) {
			<-hang
			return nil, auth.ErrInvalidToken
		})})
		done := make(chan error, 1)
		go func() { _, err := p.Authenticate(post("Authorization", "Bearer first")); done <- err }()
		synctest.Wait()
		for want, ctx := range map[time.Duration]context.Context{10 * time.Second: t.Context(), time.Second: timeout(t, time.Second)} {
			begun := time.Now()
			_, err := p.Authenticate(post("Authorization", "Bearer next").WithContext(ctx))
			denied, _ := errors.AsType[*auth.Denied](err)
			if denied == nil || denied.Status != http.StatusServiceUnavailable || time.Since(begun) > want {
				t.Errorf("%v after %v, want 503 after %v", err, time.Since(begun), want)
			}
		}
		close(hang)
		<-done
	})
}

// A verifier that waits for its context alone does not hold a request for ever.
func TestVerificationEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtector(t, auth.Options{Verifier: auth.VerifierFunc(func(ctx context.Context, _ *auth.Credentials) (*auth.Identity, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})})
		begun := time.Now()
		_, err := p.Authenticate(post("Authorization", "Bearer t").WithContext(timeout(t, time.Hour)))
		denied, _ := errors.AsType[*auth.Denied](err)
		if denied == nil || denied.Status != http.StatusServiceUnavailable || time.Since(begun) != 30*time.Second {
			t.Errorf("%v after %v, want 503 after 30s", err, time.Since(begun))
		}
	})
}

// waitingProofs is a ProofVerifier whose VerifyProof waits for its context alone.
type waitingProofs struct{ auth.VerifierFunc }

func (waitingProofs) VerifyProof(ctx context.Context, _ *auth.Credentials, _ *auth.Identity) error {
	<-ctx.Done()
	return ctx.Err()
}

// The same is true of proofs.
func TestVerificationOfProofEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		identity := granted("ann", func(i *auth.Identity) { i.Expiry, i.Thumbprint = time.Time{}, "key" })
		p := newProtector(t, auth.Options{Verifier: waitingProofs{func(context.Context, *auth.Credentials) (*auth.Identity, error) {
			return &identity, nil
		}}})
		begun := time.Now()
		_, err := p.Authenticate(post("Authorization", "DPoP t", "DPoP", "proof").WithContext(timeout(t, time.Hour)))
		denied, _ := errors.AsType[*auth.Denied](err)
		if denied == nil || denied.Status != http.StatusServiceUnavailable || time.Since(begun) != 30*time.Second {
			t.Errorf("%v after %v, want 503 after 30s", err, time.Since(begun))
		}
	})
}

func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

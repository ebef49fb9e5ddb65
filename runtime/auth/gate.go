package auth

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// gate limits the verifications of tokens that run at once. Clients without valid credentials could
// otherwise overload the authorization server through this one. Further verifications wait.
type gate struct {
	running chan struct{} // holds an item for each running verification
	most    int           // running and waiting

	mu       sync.Mutex
	total    int            // running and waiting
	networks map[string]int // the same, by network
}

const (
	// waitingPerRunning is how many verifications may wait for each that may run.
	waitingPerRunning = 9
	// maxGateWait is how long a verification waits.
	maxGateWait = 10 * time.Second
)

func newGate(running int) *gate {
	return &gate{running: make(chan struct{}, running), most: (1 + waitingPerRunning) * running, networks: map[string]int{}}
}

// enter waits until a verification for a client in a network may run. It returns false if it may
// not: too many wait, or half of all and in the same network, or it has waited for too long. If it
// returns true, leave must be called.
func (g *gate) enter(ctx context.Context, network string) bool {
	g.mu.Lock()
	if g.total >= g.most || network != "" && g.networks[network] >= g.most/2 {
		g.mu.Unlock()
		return false
	}
	g.total++
	g.networks[network]++
	g.mu.Unlock()
	select {
	case g.running <- struct{}{}:
		return true
	default:
	}
	timeout := time.NewTimer(maxGateWait)
	defer timeout.Stop()
	select {
	case g.running <- struct{}{}:
		return true
	case <-ctx.Done():
	case <-timeout.C:
	}
	g.uncount(network)
	return false
}

// leave ends a verification.
func (g *gate) leave(network string) {
	<-g.running
	g.uncount(network)
}

func (g *gate) uncount(network string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.total--
	if g.networks[network]--; g.networks[network] == 0 {
		delete(g.networks, network)
	}
}

// errBusy is the error for a request whose token may not be verified now. It has no Err, so that it
// is not logged: clients could otherwise fill the log.
var errBusy = &Denied{Status: http.StatusServiceUnavailable, Reason: "too many access tokens are being verified"}

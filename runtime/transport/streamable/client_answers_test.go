package streamable_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// Each answer that is being posted has a connection. The limit prevents a server that sends many
// requests and accepts no answers from making the client open any number of connections.
func TestClientLimitsAnswersThatAreBeingPosted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asked, atOnce = 200, 64
		f := newFake(t)
		release := make(chan struct{})
		var posts atomic.Int32 // used by the server's goroutines
		f.other = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
			switch {
			case r.Method == "GET":
				send := stream(w)
				for i := range asked {
					send("data: %s\n\n", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
				}
				<-r.Context().Done()
				return true
			case m.Kind == jsonrpc.KindResponse:
				posts.Add(1)
				<-release
			}
			return false
		}
		s := f.connect(f.options(), nil)
		synctest.Wait()
		if n := posts.Load(); n != atOnce {
			t.Errorf("%d answers are being posted, want %d", n, atOnce)
		}
		close(release)
		synctest.Wait()
		if n := posts.Load(); n != asked {
			t.Errorf("%d answers were posted, want %d", n, asked)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

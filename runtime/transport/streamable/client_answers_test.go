package streamable_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

// Each answer that is being posted uses a connection. A server that sends many requests and accepts
// no answers must not make the client open an unlimited number of connections.
func TestClientLimitsConcurrentAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests, limit = 200, 64
		f := newFakeServer(t)
		release := make(chan struct{})
		var posts atomic.Int32 // used by the server's goroutines
		f.other = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
			switch {
			case r.Method == "GET":
				send := stream(w)
				for i := range requests {
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
		if n := posts.Load(); n != limit {
			t.Errorf("%d answers are being posted, want %d", n, limit)
		}
		close(release)
		synctest.Wait()
		if n := posts.Load(); n != requests {
			t.Errorf("%d answers were posted, want %d", n, requests)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// An answer may be the input of a user. If it is lost, the server would wait for it in vain.
func TestClientRepeatsAnswerUntilAccepted(t *testing.T) {
	for _, test := range []struct {
		status   int   // 0 breaks the connection
		rejected int32 // number of rejected attempts
		want     int32 // number of attempts
	}{
		{0, 1, 2}, {0, 20, 6}, {502, 2, 3}, {503, 20, 6}, {403, 1, 1},
	} {
		t.Run(fmt.Sprint(test.status, " ", test.rejected), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeServer(t)
				var posts atomic.Int32 // used by the server's goroutines
				f.other = func(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) bool {
					switch {
					case r.Method == "GET":
						stream(w)("data: %s\n\n", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
						<-r.Context().Done()
						return true
					case m.Kind != jsonrpc.KindResponse || posts.Add(1) > test.rejected:
						return false
					case test.status == 0:
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(test.status)
					return true
				}
				f.connect(f.options(), nil)
				time.Sleep(time.Hour)
				if n := posts.Load(); n != test.want {
					t.Errorf("%d posts, want %d", n, test.want)
				}
			})
		})
	}
}

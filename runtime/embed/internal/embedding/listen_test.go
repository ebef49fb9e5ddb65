package embedding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// listen returns a subscription to tasks. The peer records its notifications.
func listen(p *peer, notifications string) *Incoming {
	i := inModern(p, "subscriptions/listen", `{"notifications":`+notifications+`}`)
	i.Send = func(ctx context.Context, method string, params json.RawMessage) error {
		return p.Notify(ctx, method, session.Raw(params))
	}
	return i
}

func TestListenReportsTasks(t *testing.T) {
	for _, others := range []bool{false, true} {
		t.Run(fmt.Sprintf("others=%t", others), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				s := newServer(t, tools{"gate": func(context.Context, *Call) (json.RawMessage, error) {
					<-gate
					return json.RawMessage(`{"content":[]}`), nil
				}}, nil)
				p := newPeer("p")
				id := s.start(p, `{"name":"gate","task":{}}`)
				filter := `{"taskIds":["` + id + `","unknown"]}`
				if others {
					filter = `{"toolsListChanged":true,"taskIds":["` + id + `","unknown"]}`
				}
				ctx, cancel := context.WithCancel(t.Context())
				out, done := Outcome{}, make(chan error, 1)
				go func() {
					var err error
					out, err = s.Serve(ctx, listen(p, filter))
					done <- err
				}()
				synctest.Wait()
				if others {
					if err := <-done; err != nil || out.Handled || len(out.TaskIDs) != 1 || out.TaskIDs[0] != id {
						t.Fatalf("got %v, %v", out, err)
					}
				} else if got := p.messages("acknowledged"); len(got) != 1 || !strings.Contains(got[0], `{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"},"notifications":{"taskIds":["`+id+`"]}}`) {
					t.Errorf("got acknowledgments %q", got)
				}
				gate <- struct{}{}
				synctest.Wait()
				got := p.messages(tasks.MethodNotificationsTasks+" ", `"status":"completed"`)
				if len(got) != 1 || !strings.Contains(got[0], `{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"},"taskId":"`+id+`"`) {
					t.Errorf("got notifications %q", got)
				}
				if others {
					out.Stop()
					out.Stop()
					cancel()
					return
				}
				cancel()
				if err := <-done; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestListenEndsWithEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{}, nil)
		p := newPeer("p")
		done := make(chan string)
		go func() { done <- s.result(listen(p, `{"taskIds":[]}`)) }()
		synctest.Wait()
		s.Close()
		if got := <-done; got != `{"_meta":{"io.modelcontextprotocol/subscriptionId":"1"},"resultType":"complete"}` {
			t.Errorf("got %s", got)
		}
	})
}

func TestListenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"hang": hang}, nil)
		p := newPeer("p")
		undeclared := listen(p, `{"taskIds":["x"]}`)
		undeclared.Params = json.RawMessage(`{"notifications":{"taskIds":["x"]}}`)
		_, err := s.serve(t.Context(), undeclared)
		wantError(t, err, -32021, "extension")
		_, err = s.serve(t.Context(), listen(p, `{"taskIds":"x"}`))
		wantError(t, err, jsonrpc.CodeInvalidParams, "")
		many, _ := json.Marshal(make([]string, maxWatched))
		_, err = s.serve(t.Context(), listen(p, `{"taskIds":`+string(many)+`}`))
		wantError(t, err, jsonrpc.CodeInvalidRequest, "limit of tasks in subscriptions")
		_, err = s.serve(t.Context(), listen(p, `{"taskIds":["`+strings.Repeat("x", maxWatchedBytes+1)+`"]}`))
		wantError(t, err, jsonrpc.CodeInvalidRequest, "limit of tasks in subscriptions")
		if got, err := s.serve(t.Context(), listen(p, `{"toolsListChanged":true}`)); got != "plain" || err != nil {
			t.Errorf("got %s, %v without tasks", got, err)
		}
		old := listen(p, `{"taskIds":["x"]}`)
		old.Revision = "2025-11-25"
		if got, err := s.serve(t.Context(), old); got != "plain" || err != nil {
			t.Errorf("got %s, %v in a session", got, err)
		}

		// A task of another principal is not acknowledged.
		id := s.start(p, `{"name":"hang","task":{}}`)
		ctx, cancel := context.WithCancel(t.Context())
		other := newPeer("other")
		i := listen(other, `{"taskIds":["`+id+`"]}`)
		i.Principal = "bob"
		go s.serve(ctx, i)
		synctest.Wait()
		s.result(inSession(p, "tasks/cancel", `{"taskId":"`+id+`"}`))
		synctest.Wait()
		if got := strings.Join(other.messages(), ", "); !strings.HasSuffix(got, `"notifications":{"taskIds":[]}}`) {
			t.Errorf("got %s", got)
		}
		cancel()
		synctest.Wait()
		if used := s.watched.Used(); len(used) > 0 {
			t.Errorf("usage %v after the end", used)
		}
	})
}

// A client that reads slowly gets the latest state.
func TestListenMergesChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"ask": ask}, nil)
		p := newPeer("p")
		gate := make(chan struct{})
		id := s.start(p, `{"name":"ask","task":{}}`)
		i := listen(p, `{"taskIds":["`+id+`"]}`)
		send := i.Send
		i.Send = func(ctx context.Context, method string, params json.RawMessage) error {
			<-gate
			return send(ctx, method, params)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go s.serve(ctx, i)
		synctest.Wait()
		s.payload(newPeer("x"), id)
		close(gate)
		synctest.Wait()
		if got := p.messages(tasks.MethodNotificationsTasks + " "); len(got) != 1 || !strings.Contains(got[0], "completed") {
			t.Errorf("got %q", got)
		}
		cancel()
	})
}

// A subscription ends when its stream has ended.
func TestListenEndsWithItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"ask": ask}, nil)
		p := newPeer("p")
		id := s.start(p, `{"name":"ask","task":{}}`)
		w := NewStream(httptest.NewRecorder())
		filter := `{"taskIds":["` + id + `"]}`
		i := listen(p, filter)
		i.Send = w.Send
		done := make(chan error)
		go func() {
			_, err := s.Serve(t.Context(), i)
			done <- err
		}()
		synctest.Wait()
		w.Close()
		s.payload(p, id)
		if err := <-done; err == nil {
			t.Error("the subscription has a result")
		}
		i = listen(p, filter)
		i.Send = w.Send
		if _, err := s.Serve(t.Context(), i); err == nil {
			t.Error("a subscription began on a stream that has ended")
		}
		if used := s.watched.Used(); len(used) > 0 {
			t.Errorf("usage %v after the end", used)
		}
	})
}

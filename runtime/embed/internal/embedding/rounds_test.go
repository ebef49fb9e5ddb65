package embedding

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
)

// forms returns a tool whose results ask for two forms in each of a number of rounds.
func forms(rounds int) func(context.Context, *Call) (json.RawMessage, error) {
	return func(ctx context.Context, c *Call) (json.RawMessage, error) {
		if !c.Modern || !has(c.Params, "_meta", "io.modelcontextprotocol/protocolVersion") || !has(c.Params, "_meta", "io.modelcontextprotocol/clientCapabilities") {
			return nil, errors.New("the tool cannot ask by its result")
		}
		var n int
		fmt.Sscan(part(string(c.Params), "requestState"), &n)
		if n == rounds {
			responses := part(string(c.Params), "inputResponses")
			return json.RawMessage(`{"content":[],"last":` + responses + `}`), nil
		}
		form := func(text string) string { return `{"method":"elicitation/create","params":{"message":"` + text + `"}}` }
		return json.RawMessage(fmt.Sprintf(`{"resultType":"input_required","requestState":"%d","inputRequests":{"a":%s,"b":%s}}`, n+1, form(fmt.Sprint("a", n)), form(fmt.Sprint("b", n)))), nil
	}
}

func withRounds(after time.Duration) func(o *embed.Options) {
	return func(o *embed.Options) {
		o.Default = &embed.Tool{Rounds: true, Support: receiver.Support{After: after}}
	}
}

// A plain call may ask for input by its result. The client then calls again with the responses.
func TestRoundsOfPlainCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"forms": forms(1)}, withRounds(0))
		p := newPeer("p")
		got := s.result(inModern(p, "tools/call", `{"name":"forms"}`))
		if part(got, "resultType") != "input_required" || part(got, "inputRequests", "b", "params", "message") != "b0" {
			t.Errorf("got %s", got)
		}
		got = s.result(inModern(p, "tools/call", `{"name":"forms","requestState":"1","inputResponses":{"a":{"action":"accept"}}}`))
		if got != `{"resultType":"complete","content":[],"last":{"a":{"action":"accept"}}}` {
			t.Errorf("got %s", got)
		}
	})
}

func TestRoundsOfTask(t *testing.T) {
	for _, row := range []struct {
		name   string
		modern bool
		rounds int
		want   string
	}{
		{"session", false, 2, `{"a":{"action":"accept","content":{"name":"p"}},"b":{"action":"accept","content":{"name":"p"}}}`},
		{"modern", true, 2, `{"a":{"action":"accept"},"b":{"action":"decline"}}`},
		{"as many as allowed", false, 10, `"a":{"action":"accept"`},
		{"too many", false, 11, `after 10 rounds`},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, tools{"forms": forms(row.rounds)}, withRounds(-1))
				p := newPeer("p")
				if !row.modern {
					id := s.start(p, `{"name":"forms","task":{}}`)
					got, err := s.serve(t.Context(), inSession(p, "tasks/result", `{"taskId":"`+id+`"}`))
					if !strings.Contains(got+fmt.Sprint(err), row.want) {
						t.Errorf("got %s, %v", got, err)
					}
					if n := len(p.messages("elicitation/create")); n != 2*min(row.rounds, maxRounds) {
						t.Errorf("the client was asked %d times in %d rounds", n, row.rounds)
					}
					return
				}
				id := part(s.result(inModern(p, "tools/call", `{"name":"forms"}`)), "taskId")
				for round := range row.rounds {
					synctest.Wait()
					var requests map[string]inputRequest
					json.Unmarshal([]byte(part(s.state(id), "inputRequests")), &requests)
					if len(requests) != 2 {
						t.Fatalf("round %d: got %v", round, requests)
					}
					for key, q := range requests {
						action := "accept"
						if strings.Contains(string(q.Params), `"b`) {
							action = "decline"
						}
						s.result(inModern(p, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"`+key+`":{"action":"`+action+`"}}}`))
					}
				}
				synctest.Wait()
				if got := s.state(id); part(got, "result", "last") != row.want {
					t.Errorf("got %s", got)
				}
			})
		})
	}
}

// A call that becomes a task while the tool runs sends its input requests as a task. A plain call
// whose result asks for input does not become a task later.
func TestRoundsAndPromotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ctx context.Context, c *Call) (json.RawMessage, error) {
			if part(string(c.Params), "requestState") == "" {
				time.Sleep(time.Minute)
			}
			return forms(1)(ctx, c)
		}
		s := newServer(t, tools{"slow": slow}, withRounds(time.Second))
		p := newPeer("p")
		id := part(s.result(inModern(p, "tools/call", `{"name":"slow"}`)), "taskId")
		time.Sleep(time.Hour / 2)
		if got := s.state(id); part(got, "status") != "input_required" {
			t.Errorf("got %s", got)
		}
		_, err := s.serve(t.Context(), inModern(p, "tools/call", `{"name":"unknown"}`))
		wantError(t, err, jsonrpc.CodeInvalidParams, "unknown")
	})
}

// slowStore is a store that takes a minute to create a task.
type slowStore struct{ task.Store }

func (s slowStore) Create(ctx context.Context, r task.Record) (task.Record, error) {
	select {
	case <-time.After(time.Minute):
		return s.Store.Create(ctx, r)
	case <-ctx.Done():
		return r, ctx.Err()
	}
}

// A result that asks for input while the call is becoming a task waits for the store, and asks as
// the task. Other calls go on meanwhile.
func TestResultDuringPromotion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tools{"echo": echo, "forms": func(ctx context.Context, c *Call) (json.RawMessage, error) {
			if part(string(c.Params), "requestState") == "" {
				time.Sleep(2 * time.Second)
			}
			return forms(1)(ctx, c)
		}}
		s := newServer(t, b, func(o *embed.Options) {
			withRounds(time.Second)(o)
			o.Tasks.Store = slowStore{o.Tasks.Store}
		})
		p := newPeer("p")
		begun := time.Now()
		done := make(chan string)
		go func() { done <- s.result(inModern(p, "tools/call", `{"name":"forms"}`)) }() // ends with the call
		time.Sleep(10 * time.Second)
		s.result(inModern(p, "tools/call", `{"name":"echo"}`))
		if took := time.Since(begun); took != 10*time.Second {
			t.Errorf("another call has ended after %v", took)
		}
		id := part(<-done, "taskId")
		if took := time.Since(begun); took != time.Minute+time.Second {
			t.Errorf("the call has become a task after %v", took)
		}
		synctest.Wait()
		if got := s.state(id); part(got, "status") != "input_required" {
			t.Errorf("got %s", got)
		}
	})
}

func TestRoundsToolCannotCallItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, tools{"ask": ask}, withRounds(time.Hour))
		_, err := s.serve(t.Context(), inModern(newPeer("p"), "tools/call", `{"name":"ask"}`))
		wantError(t, err, jsonrpc.CodeInvalidRequest, "by its result")
	})
}

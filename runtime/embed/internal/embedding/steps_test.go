package embedding

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/embed"
)

// durable makes all tools durable, and parks tasks that wait for a minute.
func durable(o *embed.Options) {
	o.Default = new(embed.Durable())
	o.Tasks.Recovery.ParkAfter = time.Minute
	o.Tasks.TTL.Default, o.Tasks.TTL.Max = 1000*time.Hour, 1000*time.Hour
}

// order is a tool that runs steps, sends an input request, and sleeps. It counts the runs of each
// step.
type order struct{ runs, first, second atomic.Int32 }

func (o *order) run(ctx context.Context, c *Call) (json.RawMessage, error) {
	o.runs.Add(1)
	c.Notify(ctx, "notifications/message", json.RawMessage(`{"data":"begin"}`))
	key, err := embed.Step(ctx, "first", func(ctx context.Context) (string, error) {
		o.first.Add(1)
		return embed.IdempotencyKey(ctx), nil
	})
	if err != nil {
		return nil, err
	}
	answer, err := c.Request(ctx, "elicitation/create", json.RawMessage(`{"message":"name?"}`))
	if err != nil {
		return nil, err
	}
	if err := embed.Sleep(ctx, "nap", func() time.Time { return time.Now().Add(time.Hour) }); err != nil {
		return nil, err
	}
	n, err := embed.Step(ctx, "second", func(context.Context) (int32, error) { return o.second.Add(1), nil })
	if err != nil {
		return nil, err
	}
	return json.RawMessage(fmt.Sprintf(`{"key":%q,"answer":%s,"n":%d}`, key, answer, n)), nil
}

func TestStepsAreNotRepeated(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprintf("modern=%t", modern), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := new(order)
				b := tools{"order": o.run}
				s := newServer(t, b, durable)
				p := newPeer("p")
				var id string
				if modern {
					id = part(s.result(inModern(p, "tools/call", `{"name":"order"}`)), "taskId")
				} else {
					id = s.start(p, `{"name":"order","task":{}}`)
				}
				time.Sleep(10 * time.Minute) // the task is parked
				s = s.restarted(b, durable)
				if modern {
					s.result(inModern(p, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"input-1":{"action":"accept"}}}`))
				} else {
					go s.serve(t.Context(), inSession(p, "tasks/result", `{"taskId":"`+id+`"}`))
				}
				time.Sleep(10 * time.Minute) // the task sleeps, and is parked
				s = s.restarted(b, durable)
				time.Sleep(2 * time.Hour)
				got := s.state(id)
				if part(got, "result", "answer", "action") != "accept" || part(got, "result", "n") != "1" || len(part(got, "result", "key")) < 10 {
					t.Errorf("got %s", got)
				}
				if o.first.Load() != 1 || o.second.Load() != 1 || o.runs.Load() < 3 {
					t.Errorf("the steps ran %d and %d times, the handler %d times", o.first.Load(), o.second.Load(), o.runs.Load())
				}
				if got := p.messages("elicitation/create"); len(got) != 1 && !modern {
					t.Errorf("the client was asked %q", got)
				}
				if got := p.messages("notifications/message"); len(got) != 1 {
					t.Errorf("the client got %q", got)
				}
			})
		})
	}
}

// A plain call keeps its recorded steps when it becomes a task.
func TestPromotedCallKeepsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := new(order)
		slow := func(ctx context.Context, c *Call) (json.RawMessage, error) {
			embed.Step(ctx, "slow", func(context.Context) (int, error) { time.Sleep(time.Minute); return 1, nil })
			return o.run(ctx, c)
		}
		s := newServer(t, tools{"order": slow}, durable)
		p, begin := newPeer("p"), time.Now()
		id := part(s.result(inModern(p, "tools/call", `{"name":"order"}`)), "taskId")
		if d := time.Since(begin); d > 0 {
			t.Errorf("the call became a task %v after its first step had begun", d)
		}
		time.Sleep(10 * time.Minute)
		s = s.restarted(tools{"order": slow}, durable)
		s.result(inModern(p, "tasks/update", `{"taskId":"`+id+`","inputResponses":{"input-1":{"action":"accept"}}}`))
		time.Sleep(2 * time.Hour)
		if got := s.state(id); part(got, "status") != "completed" || o.first.Load() != 1 {
			t.Errorf("got %s after %d runs of the first step", got, o.first.Load())
		}
	})
}

func TestChangedHandlerFailsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := func(o *embed.Options) { durable(o); o.Tasks.Logger = slog.New(slog.DiscardHandler) }
		s := newServer(t, tools{"order": new(order).run}, quiet)
		p := newPeer("p")
		id := s.start(p, `{"name":"order","task":{}}`)
		time.Sleep(10 * time.Minute)
		s = s.restarted(tools{"order": func(ctx context.Context, c *Call) (json.RawMessage, error) {
			embed.Step(ctx, "other", func(context.Context) (int, error) { return 1, nil })
			return ask(ctx, c)
		}}, quiet)
		go s.serve(t.Context(), inSession(p, "tasks/result", `{"taskId":"`+id+`"}`))
		time.Sleep(time.Minute)
		if got := s.state(id); part(got, "status") != "failed" || !strings.Contains(got, "-32603") {
			t.Errorf("got %s", got)
		}
	})
}

func TestParkedTaskHasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		s := newServer(t, tools{"ask": func(ctx context.Context, c *Call) (json.RawMessage, error) {
			running.Add(1)
			defer running.Add(-1)
			return ask(ctx, c)
		}}, durable)
		p := newPeer("p")
		id := s.start(p, `{"name":"ask","task":{}}`)
		time.Sleep(time.Hour)
		if n := running.Load(); n != 0 {
			t.Errorf("%d handlers run", n)
		}
		if got := s.payload(p, id); part(got, "answer", "action") != "accept" {
			t.Errorf("got %s", got)
		}
	})
}

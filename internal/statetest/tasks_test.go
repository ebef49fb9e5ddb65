package statetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// values are the result of a step.
type values struct {
	Text    string
	Large   uint64
	Small   float64
	Number  json.Number
	Raw     json.RawMessage
	Any     any
	Names   map[string]int
	Keys    map[int]string
	Bytes   []byte
	Array   [2]byte
	Time    time.Time
	Elapsed time.Duration
	None    *int
	Own     own
}

// own is a type with a method that encodes.
type own struct{ text string }

func (o own) MarshalJSON() ([]byte, error)     { return json.Marshal(map[string]string{"own": o.text}) }
func (o *own) UnmarshalJSON(text []byte) error { o.text = string(text); return nil }

// form is the form that the work sends.
type form struct {
	Name string `json:"name"`
	N    int    `json:"n,omitempty" description:"<&>" default:"7"`
}

// rawForm returns a form with JSON of encoding/json, for texts that are not UTF-8.
func rawForm() *mcp.ElicitRequestFormParams {
	p := &mcp.ElicitRequestFormParams{Message: "Second"}
	p.RequestedSchema.Properties = map[string]mcp.PrimitiveSchemaDefinition{"b": &mcp.BooleanSchema{}, "a": &mcp.StringSchema{Description: new(odd)}}
	p.RequestedSchema.Extra.Set("title", must(json.Marshal("\xff"+odd)))
	p.RequestedSchema.Extra.Set("x", must(json.Marshal(map[string]any{odd: 1e21, "a": "\\ufffd"})))
	return p
}

// work is the handler of the tasks. It does one thing of each kind. It counts the steps that run.
func work(ran map[string]int) func(ctx context.Context, c *server.Call, in struct{ Order json.RawMessage }) (string, error) {
	return func(ctx context.Context, c *server.Call, in struct{ Order json.RawMessage }) (string, error) {
		v, err := server.Step(ctx, c, "values "+odd, func(context.Context) (values, error) {
			ran["values"]++
			return values{
				Text: odd, Large: math.MaxUint64, Small: 5e-324, Number: "-12345678901234567890.50e-400", Raw: json.RawMessage(`{"b":1e999,"a":"\u2028\/<"}`),
				Any:   map[string]any{"s": odd, "n": json.Number("123456789012345678901234567890")},
				Names: map[string]int{"\U0001F600": 1, "\uff61": 2, odd: 3}, Keys: map[int]string{10: "ten", 9: "nine", -1: ""},
				Bytes: []byte(odd), Array: [2]byte{1, 255}, Time: time.Date(2000, 1, 1, 0, 0, 0, 1, time.FixedZone("", 3600)), Elapsed: -1, Own: own{odd},
			}, nil
		})
		if err != nil {
			return "", err
		}
		_, failed := server.Step(ctx, c, "fails", func(context.Context) (int, error) {
			ran["fails"]++
			return 0, fmt.Errorf("%s: %w", odd, &jsonrpc.Error{Code: 7, Message: odd, Data: json.RawMessage(`{"n":1e999,"s":"\u2028"}`)})
		})
		rpc, _ := errors.AsType[*jsonrpc.Error](failed)
		if rpc == nil {
			return "", failed
		}
		// The text of this error depends on the version of Go.
		_, other := server.Step(ctx, c, "other", func(context.Context) (int, error) {
			ran["other"]++
			var into struct {
				S int `json:",string"`
			}
			return into.S, json.Unmarshal([]byte(`{"S":5}`), &into)
		})
		if _, recorded := errors.AsType[*server.StepError](other); !recorded {
			return "", other
		}
		filled := form{Name: odd}
		action, err := server.Elicit(ctx, c, "First "+odd, &filled)
		if err != nil {
			return "", err
		}
		if err := server.Sleep(ctx, c, "nap", func() time.Time { return time.Now().Add(time.Hour) }); err != nil {
			return "", err
		}
		again, err := server.Step(ctx, c, "between", func(context.Context) (string, error) { ran["between"]++; return filled.Name, nil })
		if err != nil {
			return "", err
		}
		if err := server.Sleep(ctx, c, "night", func() time.Time { return time.Now().Add(8 * time.Hour) }); err != nil {
			return "", err
		}
		second, err := c.ElicitForm(ctx, rawForm())
		if err != nil {
			return "", err
		}
		visited, err := c.ElicitURL(ctx, "Third "+odd, "https://example.com/{id}", "")
		if err != nil {
			return "", err
		}
		last, err := server.Step(ctx, c, "after", func(context.Context) (int, error) { ran["after"]++; return 1, nil })
		content := slices.Sorted(maps.Keys(second.Content))
		return fmt.Sprintf("%s %+q %d %v %s %s %v %v %v %q %v %s %d %v %q|%+q %d %+q %s|%v|%s %+q %d %+q|%s %v|%s %d", in.Order,
			v.Text, v.Large, v.Small, v.Number, string(v.Raw), v.Any, v.Names, v.Keys, v.Bytes, v.Array, v.Time, v.Elapsed, v.None, v.Own.text,
			failed, rpc.Code, rpc.Message, string(rpc.Data), other, action, filled.Name, filled.N, again, second.Action, content, visited, last), err
	}
}

// taskServer starts a server of durable tasks.
func taskServer(t *testing.T, store task.Store, ran map[string]int) *server.Server {
	t.Helper()
	s := newServer(t, server.Options{
		Tasks: task.Options{Store: store, Recovery: task.Recovery{ParkAfter: time.Second}, TTL: task.TTL{Default: 10000 * time.Hour, Max: 10000 * time.Hour}, Limits: task.Limits{PageSize: 1}},
	})
	server.AddTool(s, "work", "", work(ran), server.Durable())
	noError(t, s.Start(t.Context()))
	return s
}

// begin calls the tool as a task, and returns the id.
func begin(t *testing.T, s *server.Server) string {
	t.Helper()
	h := must(s.Handler(&streamable.HandlerOptions{Access: streamable.Access{Principal: principal}}))
	result := resultOf(t, serve(h, request(t, "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"work","arguments":{"Order":{"b":"\u2028","a":1e999}},"task":{}}}`,
		"MCP-Session-Id", openSession(t, h))))
	var created mcp.CreateTaskResult
	noError(t, codec.Unmarshal(result, &created))
	return created.Task.TaskID
}

// advance answers the open input requests of a task and lets 12 hours pass. It does so n times.
func advance(t *testing.T, s *server.Server, store task.Store, id string, n int) {
	t.Helper()
	for range n {
		synctest.Wait()
		r, err := store.Get(t.Context(), id)
		noError(t, err)
		if r.Status == mcp.TaskStatusInputRequired {
			noError(t, s.Tasks().Update(t.Context(), "ann", id, "tasks/update", func(q *task.InputRequest) (json.RawMessage, error) {
				switch {
				case strings.Contains(string(q.Params), `"mode":"url"`):
					return json.RawMessage(`{"action":"accept"}`), nil
				case strings.Contains(string(q.Params), "First"):
					return json.RawMessage(`{"action":"accept","content":{"n":12e0,"name":"<&>\u2028\ufffd "}}`), nil
				}
				return json.RawMessage(`{"action":"accept","content":{"b":true,"a":"\u2029"}}`), nil
			}))
		}
		time.Sleep(12 * time.Hour)
	}
	synctest.Wait()
}

// taskResult returns the result of a task.
func taskResult(t *testing.T, s *server.Server, id string) string {
	t.Helper()
	out, err := s.Tasks().Result(t.Context(), "ann", id, nil)
	noError(t, err)
	if out.Error != nil {
		t.Fatal(out.Error)
	}
	var result mcp.CallToolResult
	noError(t, codec.Unmarshal(out.Result, &result))
	return result.Content[0].(*mcp.TextContent).Text
}

// ends is how often the open input requests of a task are answered until it has ended.
const ends = 5

// taskFacts is what the file tasks.db contains.
type taskFacts struct {
	Now    time.Time
	Result string
	Tasks  []string // the last one has ended
	Cursor string   // of the page with the second task
}

func writeTasks(t *testing.T, dir string) {
	whole := memory.New()
	s := taskServer(t, whole, map[string]int{})
	id := begin(t, s)
	advance(t, s, whole, id, ends)
	facts := taskFacts{Result: taskResult(t, s, id)}
	s.Close()

	file := t.TempDir() + "/tasks.db"
	store := must(bolt.Open(file))
	s = taskServer(t, store, map[string]int{})
	for range 4 {
		facts.Tasks = append(facts.Tasks, begin(t, s))
		time.Sleep(time.Minute)
	}
	advance(t, s, store, facts.Tasks[3], ends)
	advance(t, s, store, facts.Tasks[2], 2) // the second request is answered, and the third one is open
	advance(t, s, store, facts.Tasks[1], 1)
	synctest.Wait()
	noError(t, s.Tasks().Update(t.Context(), "ann", facts.Tasks[0], "tasks/update", func(*task.InputRequest) (json.RawMessage, error) {
		return json.RawMessage(`{"action":"accept","content":{"n":12e0,"name":"<&>\u2028\ufffd "}}`), nil
	}))
	time.Sleep(2 * time.Hour) // into the night
	_, cursor, err := s.Tasks().List(t.Context(), "ann", "")
	noError(t, err)
	facts.Now, facts.Cursor = time.Now().UTC(), cursor
	s.Close()
	noError(t, store.Close())
	pack(t, file, dir)
	saveFacts(t, dir, "tasks.json", facts)
}

func readTasks(t *testing.T, dir string) {
	facts := loadFacts[taskFacts](t, dir, "tasks.json")
	sleepUntil(facts.Now)
	store := must(bolt.Open(unpack(t, dir, "tasks.db")))
	defer store.Close()
	ran := map[string]int{}
	s := taskServer(t, store, ran)
	defer s.Close()
	var listed []string
	for cursor := facts.Cursor; cursor != ""; {
		tasks, next, err := s.Tasks().List(t.Context(), "ann", cursor)
		noError(t, err)
		for _, task := range tasks {
			listed = append(listed, task.TaskID)
		}
		cursor = next
	}
	equal(t, "tasks of the further pages", facts.Tasks[1:], listed)
	equal(t, "result of the task that has ended", facts.Result, taskResult(t, s, facts.Tasks[3]))
	for _, id := range facts.Tasks[:3] {
		advance(t, s, store, id, ends)
		equal(t, "result of a continued task", facts.Result, taskResult(t, s, id))
	}
	equal(t, "steps that run", map[string]int{"after": 3}, ran)
}

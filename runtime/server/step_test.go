package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// inBothEras calls a tool that runs f in a session, and in rounds. It returns the text of the
// result of each.
func inBothEras(t *testing.T, f func(ctx context.Context, c *server.Call) (string, error)) (inSession, inRounds string) {
	t.Helper()
	s := newServer(t, server.Options{})
	addTool(s, f)
	c := connect(t, s, clientConfig{capabilities: clientCapabilities(t, everyInput), handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
		return session.Raw(respondToAll(req.Method, string(req.Params))), nil
	}})
	result, code := c.call("tools/call", do)
	if inSession = fmt.Sprint(code, " ", result); code == 0 {
		inSession = text(t, result)
	}
	last, _ := connectRounds(t, s).finish("tools/call", do, respondToAll)
	return inSession, last.text
}

func TestStepRunsOnce(t *testing.T) {
	runs := 0
	var keys []string
	one, two := inBothEras(t, func(ctx context.Context, c *server.Call) (string, error) {
		count, err := server.Step(ctx, c, "count", func(ctx context.Context) (int, error) {
			runs++
			keys = append(keys, server.IdempotencyKey(ctx))
			return runs, nil
		})
		if err != nil {
			return "", err
		}
		name, err := askName(ctx, c, fmt.Sprint("Who is number ", count, "?"))
		if err != nil {
			return "", err
		}
		again, err := server.Step(ctx, c, "count", func(ctx context.Context) (int, error) {
			runs++
			keys = append(keys, server.IdempotencyKey(ctx))
			return runs, nil
		})
		return fmt.Sprint(name, count, again), err
	})
	equal(t, "in a session", "accept Ada1 2", one)
	equal(t, "in rounds", "accept Ada3 4", two)
	seen := map[string]bool{}
	for _, key := range keys {
		if len(key) != 24 || seen[key] {
			t.Errorf("idempotency keys %q", keys)
		}
		seen[key] = true
	}
	if key := server.IdempotencyKey(t.Context()); key != "" {
		t.Errorf("idempotency key %q outside of a step", key)
	}
}

// A handler that asks whether it replays does what is outside of steps once.
func TestReplaying(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	one, two := inBothEras(t, func(ctx context.Context, c *server.Call) (string, error) {
		line := func(text string) {
			mu.Lock()
			defer mu.Unlock()
			if !c.Replaying() {
				lines = append(lines, text)
			}
		}
		line("begun")
		n, err := server.Step(ctx, c, "count", func(context.Context) (int, error) { return 1, nil })
		if err != nil {
			return "", err
		}
		line("counted")
		name, err := askName(ctx, c, "Who?")
		if err != nil {
			return "", err
		}
		line("answered")
		return fmt.Sprint(name, n), nil
	})
	equal(t, "in a session", "accept Ada1", one)
	equal(t, "in rounds", "accept Ada1", two)
	equal(t, "lines", []string{"begun", "counted", "answered", "begun", "counted", "answered"}, lines)
}

// A client may send the state of an earlier round again: the server does not keep track of it. The
// idempotency key lets another system notice.
//
// Proves M-MRTR-11.
func TestStepOfRepeatedRoundHasTheSameKey(t *testing.T) {
	s := newServer(t, server.Options{})
	charges := map[string]int{}
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		if _, err := askName(ctx, c, "Who pays?"); err != nil {
			return "", err
		}
		return server.Step(ctx, c, "charge", func(ctx context.Context) (string, error) {
			charges[server.IdempotencyKey(ctx)]++
			return "charged", nil
		})
	})
	c := connectRounds(t, s)
	for range 2 {
		one := c.round("tools/call", do, nil, nil)
		for range 2 {
			equal(t, "result", "charged", c.round("tools/call", do, one, map[string]string{one.name(t): accept(`{"name":"Ada"}`)}).text)
		}
	}
	if len(charges) != 2 {
		t.Errorf("charges %v, want 2 keys", charges)
	}
	for key, n := range charges {
		if n != 2 {
			t.Errorf("key %s is used %d times", key, n)
		}
	}
}

func TestStepResultPassesThroughJSON(t *testing.T) {
	type value struct {
		A int    `json:"a"`
		B string `json:"-"`
	}
	one, two := inBothEras(t, func(ctx context.Context, c *server.Call) (string, error) {
		v, err := server.Step(ctx, c, "s", func(context.Context) (*value, error) { return &value{1, "lost"}, nil })
		if err != nil {
			return "", err
		}
		none, err := server.Step(ctx, c, "none", func(context.Context) (*value, error) { return nil, nil })
		if err != nil {
			return "", err
		}
		if _, err := askName(ctx, c, "Who?"); err != nil {
			return "", err
		}
		_, err = server.Step(ctx, c, "channel", func(context.Context) (any, error) { return make(chan int), nil })
		return fmt.Sprintf("%+v %v %t", *v, none, err != nil), nil
	})
	equal(t, "in a session", "{A:1 B:} <nil> true", one)
	equal(t, "in rounds", one, two)
}

func TestFailureOfStepIsRecorded(t *testing.T) {
	runs := 0
	one, two := inBothEras(t, func(ctx context.Context, c *server.Call) (string, error) {
		_, failed := server.Step(ctx, c, "s", func(context.Context) (int, error) {
			runs++
			return 0, fmt.Errorf("wrapped: %w", &jsonrpc.Error{Code: 7, Message: "no money", Data: []byte(`[1]`)})
		})
		_, other := server.Step(ctx, c, "t", func(context.Context) (int, error) { return 0, errors.New("broken") })
		if _, err := askName(ctx, c, "Who?"); err != nil {
			return "", err
		}
		var step *server.StepError
		var rpc *jsonrpc.Error
		if !errors.As(failed, &step) || !errors.As(failed, &rpc) || !errors.As(other, &step) || errors.As(other, new(*jsonrpc.Error)) {
			return "", fmt.Errorf("got %T %w and %T %w", failed, failed, other, other)
		}
		return fmt.Sprint(step.Step, " ", rpc.Code, string(rpc.Data), " ", failed, " ", other), nil
	})
	equal(t, "in a session", "t 7[1] wrapped: jsonrpc: no money (code 7) broken", one)
	equal(t, "in rounds", one, two)
	if runs != 2 {
		t.Errorf("%d runs", runs)
	}
}

// So is one with an error that has no JSON form. Its text becomes valid, and data that is no JSON, or
// is nested too deeply for later runs, is dropped.
func TestFailureWithoutJSONIsRecorded(t *testing.T) {
	for _, row := range []struct {
		failure *jsonrpc.Error
		want    string
	}{
		{&jsonrpc.Error{Code: 7, Message: "caf\xe9", Data: []byte(`[1]`)}, "7 caf\uFFFD [1]"},
		{&jsonrpc.Error{Code: 7, Message: "no", Data: []byte(`nothing`)}, "7 no "},
		{&jsonrpc.Error{Code: 7, Message: "\xff", Data: []byte("\"\xff\"")}, "7 \uFFFD "},
		{&jsonrpc.Error{Code: 7, Message: "deep", Data: nested(wire.DefaultDepth - 1)}, "7 deep "},
	} {
		runs := 0
		one, two := inBothEras(t, func(ctx context.Context, c *server.Call) (string, error) {
			_, failed := server.Step(ctx, c, "s", func(context.Context) (int, error) {
				runs++
				return 0, row.failure
			})
			if _, err := askName(ctx, c, "Who?"); err != nil {
				return "", err
			}
			rpc, ok := errors.AsType[*jsonrpc.Error](failed)
			if _, step := errors.AsType[*server.StepError](failed); !ok || !step {
				return "", fmt.Errorf("got %T: %w", failed, failed)
			}
			return fmt.Sprint(rpc.Code, " ", rpc.Message, " ", string(rpc.Data)), nil
		})
		equal(t, "in a session", row.want, one)
		equal(t, "in rounds", row.want, two)
		if runs != 2 {
			t.Errorf("%s: %d runs", row.want, runs)
		}
	}
}

// nested returns n empty lists inside each other.
func nested(n int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n))
}

// brokenError wraps another error. Its methods panic if it is nil, as it is in an error value.
type brokenError struct{ cause error }

func (e *brokenError) Error() string { return e.cause.Error() }
func (e *brokenError) Unwrap() error { return e.cause }

// fail returns an error that is no nil, although its author may think so.
func fail() error {
	var none *brokenError
	return none
}

// A step whose error cannot be examined has failed, and does not run again, although the handler
// goes on. Such an error of a function of Select is that of its case.
func TestErrorWhoseMethodsPanicIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		d := newDurable(t, func(ctx context.Context, c *server.Call) (string, error) {
			err := func() (err error) {
				defer func() {
					if v := recover(); v != nil {
						err = fmt.Errorf("panic: %v", v)
					}
				}()
				_, err = server.Step(ctx, c, "charge", func(context.Context) (int, error) { runs.Add(1); return 0, fail() })
				return err
			}()
			won, failed := server.Select(ctx, c, "answer", server.OnAnswer(func(ctx context.Context) (string, error) {
				if name, err := askName(ctx, c, "Who?"); err != nil {
					return name, err
				}
				return "", fail()
			}), server.After(time.Hour))
			if required, ok := failed.(*server.InputRequiredError); ok {
				return "", required
			}
			return fmt.Sprint(err, "; ", won != nil, "; ", failed), nil
		})
		id := d.call()
		time.Sleep(time.Minute)
		d.answer(id, d.open(id)[0].Number, accept(`{"name":"Ada"}`))
		const text = "jsonrpc: internal error: methods of the error panic (*server_test.brokenError) (code -32603)"
		equal(t, "result", text+"; true; "+text, d.result(id))
		equal(t, "runs of the step", int64(1), runs.Load())
	})
}

const remedies = "operations of one branch follow one another; call functions concurrently with RunAll, or give a goroutine a branch of its own with Branch, and use the context that the function gets"

func TestMisuseOfSteps(t *testing.T) {
	step := func(ctx context.Context, c *server.Call, name string, f func(ctx context.Context) error) error {
		_, err := server.Step(ctx, c, name, func(ctx context.Context) (int, error) { return 0, f(ctx) })
		return err
	}
	for _, tt := range []struct {
		name string
		f    func(ctx context.Context, c *server.Call) error
		want string
	}{
		{"no name", func(ctx context.Context, c *server.Call) error { return step(ctx, c, "", nil) }, "server: step without a name"},
		{"nil function", func(ctx context.Context, c *server.Call) error {
			_, err := server.Step[int](ctx, c, "s", nil)
			return err
		}, `server: step "s": nil function`},
		{"step in a step", func(ctx context.Context, c *server.Call) error {
			return step(ctx, c, "s", func(ctx context.Context) error { return step(ctx, c, "t", nil) })
		}, `server: step in step "s": call it in the handler, before or after the step`},
		{"form in a step", func(ctx context.Context, c *server.Call) error {
			return step(ctx, c, "s", func(ctx context.Context) error { _, err := askName(ctx, c, "Who?"); return err })
		}, `server: elicitation/create in step "s": call it in the handler, before or after the step`},
		{"page in a step", func(ctx context.Context, c *server.Call) error {
			return step(ctx, c, "s", func(ctx context.Context) error {
				_, err := c.ElicitURL(ctx, "Log in.", "https://example.com/", "")
				return err
			})
		}, `server: elicitation/create in step "s": call it in the handler, before or after the step`},
		{"sampling in a step", func(ctx context.Context, c *server.Call) error {
			return step(ctx, c, "s", func(ctx context.Context) error { _, err := c.Sample(ctx, sampling()); return err })
		}, `server: sampling/createMessage in step "s": call it in the handler, before or after the step`},
		{"roots in a step", func(ctx context.Context, c *server.Call) error {
			return step(ctx, c, "s", func(ctx context.Context) error { _, err := c.Roots(ctx); return err })
		}, `server: roots/list in step "s": call it in the handler, before or after the step`},
		{"overlapping steps of one branch", func(ctx context.Context, c *server.Call) error {
			begun, both := make(chan struct{}), make(chan struct{})
			go func() { // ends with the step
				<-begun
				defer close(both)
				step(ctx, c, "t", func(context.Context) error { return nil })
			}()
			return step(ctx, c, "s", func(context.Context) error { close(begun); <-both; return nil })
		}, `-32603 internal error: server: step "t" begins while step "s" is running in the same branch: ` + remedies},
		{"step of the handler during RunAll", func(ctx context.Context, c *server.Call) error {
			return c.RunAll(ctx, func(context.Context) error { return step(ctx, c, "s", nil) })
		}, `-32603 internal error: server: step "s" begins while RunAll is running in the same branch: ` + remedies},
		{"form during a step", func(ctx context.Context, c *server.Call) error {
			begun, both := make(chan struct{}), make(chan struct{})
			go func() { // ends with the request
				<-begun
				defer close(both)
				askName(ctx, c, "Who?")
			}()
			return step(ctx, c, "s", func(context.Context) error { close(begun); <-both; return nil })
		}, `-32603 internal error: server: elicitation/create begins while step "s" is running in the same branch: ` + remedies},
		{"branch without a name", func(ctx context.Context, c *server.Call) error {
			return server.Branch(ctx, c, "", nil)
		}, "server: branch without a name"},
		{"branch without a function", func(ctx context.Context, c *server.Call) error {
			return server.Branch(ctx, c, "b", nil)
		}, `server: branch "b": nil function`},
		{"two branches of one name", func(ctx context.Context, c *server.Call) error {
			for range 2 {
				if err := server.Branch(ctx, c, "b", func(context.Context) error { return nil }); err != nil {
					return err
				}
			}
			return nil
		}, `-32603 internal error: server: a second branch has the name "b": each branch below another one needs a name of its own`},
		{"panic", func(ctx context.Context, c *server.Call) error {
			return step(ctx, c, "s", func(context.Context) error { panic("boom") })
		}, "-32603 internal error: the handler panicked"},
		{"panic of RunAll", func(ctx context.Context, c *server.Call) error {
			return c.RunAll(ctx, func(context.Context) error { panic("boom") })
		}, "-32603 internal error: the handler panicked"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			one, two := inBothEras(t, func(ctx context.Context, c *server.Call) (string, error) { return "", tt.f(ctx, c) })
			equal(t, "in a session", tt.want, one)
			equal(t, "in rounds", tt.want, two)
		})
	}
}

func TestHandlerThatIsNotDeterministicFails(t *testing.T) {
	log := new(bytes.Buffer)
	s := newServer(t, server.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	clock := 0
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		clock++
		return askName(ctx, c, fmt.Sprint("Who, at ", clock, "?"))
	})
	c := connectRounds(t, s)
	one := c.round("tools/call", do, nil, nil)
	two := c.round("tools/call", do, one, map[string]string{one.name(t): accept(`{"name":"Ada"}`)})
	if !strings.HasPrefix(two.text, "-32603 internal error: handler is not deterministic: ") {
		t.Errorf("got %q, %v", two.text, two.methods)
	}
	for _, want := range []string{"Who, at 1?", "Who, at 2?"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log %s lacks %q", log, want)
		}
	}
}

func TestStateIsLimited(t *testing.T) {
	s := newServer(t, server.Options{Limits: server.Limits{State: 2000}})
	addTool(s, func(ctx context.Context, c *server.Call) (string, error) {
		req, _ := session.FromContext(ctx)
		size := 100
		if strings.Contains(string(req.Params), "large") {
			size = 2000
		}
		if _, err := server.Step(ctx, c, "s", func(context.Context) (string, error) { return strings.Repeat("x", size), nil }); err != nil {
			return "", err
		}
		return askName(ctx, c, "Who?")
	})
	c := connectRounds(t, s)
	last, _ := c.finish("tools/call", do, respondToAll)
	equal(t, "small", "accept Ada", last.text)
	got := c.round("tools/call", `{"name":"do","arguments":{"large":true}}`, nil, nil)
	if !strings.HasPrefix(got.text, "-32603 internal error: the results of steps and input requests take ") {
		t.Errorf("large: got %q", got.text)
	}
}

// generated is a generated handler: a tree of steps, input requests and concurrency. It returns a
// text that has all results.
type generated func(ctx context.Context, x *execution) (string, error)

// execution is one call of a handler, with all its runs.
type execution struct {
	c *server.Call

	mu    *sync.Mutex
	steps map[string]int // runs by step and occurrence
}

// generate returns a random handler. Path is unique among handlers that may run at the same time.
func generate(r *rand.Rand, path string, depth int) generated {
	kind := r.IntN(8)
	if depth == 0 {
		kind = r.IntN(5)
	}
	switch kind {
	case 0, 1: // steps of one name in a row, which may fail
		times, fails := 1+r.IntN(3), r.IntN(4) == 0
		return func(ctx context.Context, x *execution) (string, error) {
			var all []string
			for i := range times {
				got, err := server.Step(ctx, x.c, path, func(context.Context) (string, error) {
					x.mu.Lock()
					defer x.mu.Unlock()
					x.steps[fmt.Sprint(path, "#", i)]++
					if fails {
						return "", fmt.Errorf("%s fails", path)
					}
					return fmt.Sprint(path, i), nil
				})
				if _, failed := errors.AsType[*server.StepError](err); failed {
					got = err.Error()
				} else if err != nil {
					return "", err
				}
				all = append(all, got)
			}
			return strings.Join(all, ","), nil
		}
	case 2, 3: // forms, some of which repeat
		times := 1 + r.IntN(2)
		return func(ctx context.Context, x *execution) (string, error) {
			all := ""
			for range times {
				got, err := askName(ctx, x.c, "form "+path)
				if err != nil {
					return "", err
				}
				all += got
			}
			return all, nil
		}
	case 4:
		if r.IntN(2) == 0 {
			return func(ctx context.Context, x *execution) (string, error) {
				roots, err := x.c.Roots(ctx) // all requests are equal
				if err != nil {
					return "", err
				}
				return roots[0].URI, nil
			}
		}
		return func(ctx context.Context, x *execution) (string, error) {
			params := sampling()
			params.SystemPrompt = &path
			message, err := x.c.Sample(ctx, params)
			if err != nil {
				return "", err
			}
			return message.Model, nil
		}
	}
	parts := make([]generated, 1+r.IntN(4))
	for i := range parts {
		parts[i] = generate(r, fmt.Sprint(path, ".", i), depth-1)
	}
	if kind == 5 { // a branch that depends on a result
		condition := generate(r, path+"?", 0)
		return func(ctx context.Context, x *execution) (string, error) {
			got, err := condition(ctx, x)
			if err != nil {
				return "", err
			}
			rest, err := parts[len(got)%len(parts)](ctx, x)
			return got + "?" + rest, err
		}
	}
	return func(ctx context.Context, x *execution) (string, error) {
		got := make([]string, len(parts))
		run := func(i int) func(ctx context.Context) error {
			return func(ctx context.Context) (err error) { got[i], err = parts[i](ctx, x); return err }
		}
		if kind == 6 {
			all := make([]func(ctx context.Context) error, len(parts))
			for i := range parts {
				all[i] = run(i)
			}
			if err := x.c.RunAll(ctx, all...); err != nil {
				return "", err
			}
		} else {
			for i := range parts {
				if err := run(i)(ctx); err != nil {
					return "", err
				}
			}
		}
		return "(" + strings.Join(got, " ") + ")", nil
	}
}

// Whether a handler runs in a session or in rounds, it has the same result, each step runs once,
// and nothing is asked again after it was answered. The client answers some of the input requests
// of a round, and sends each round to another process.
func TestGeneratedHandlersHaveOneResult(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		x := &execution{mu: new(sync.Mutex)}
		p := generate(r, "p", 3)
		cfg := server.Options{Shared: server.Shared{StateKeys: [][]byte{bytes.Repeat([]byte("k"), 32)}}}
		servers := make([]*server.Server, 2)
		clients := make([]*roundClient, len(servers))
		for i := range servers {
			servers[i] = newServer(t, cfg)
			addTool(servers[i], func(ctx context.Context, c *server.Call) (string, error) {
				return p(ctx, &execution{c, x.mu, x.steps})
			})
			clients[i] = connectRounds(t, servers[i])
		}
		respond := func(method, params string) string {
			if _, message, form := strings.Cut(params, `"message":"form `); form {
				message, _, _ = strings.Cut(message, `"`)
				return accept(`{"name":"` + message + `"}`)
			}
			return respondToAll(method, params)
		}
		x.steps = map[string]int{}
		c := connect(t, servers[0], clientConfig{capabilities: clientCapabilities(t, everyInput), handler: func(_ context.Context, req *session.Request) (codec.Encoder, error) {
			return session.Raw(respond(req.Method, string(req.Params))), nil
		}})
		result, code := c.call("tools/call", do)
		if code != 0 {
			t.Fatalf("seed %d: in a session: %s", seed, result)
		}
		want, wantSteps := text(t, result), x.steps

		x.steps = map[string]int{}
		answered := map[string]bool{}
		var last *round
		for rounds := 0; last == nil || last.state != ""; rounds++ {
			if rounds > 500 {
				t.Fatalf("seed %d: the call does not end", seed)
			}
			var responses map[string]string
			if last != nil {
				responses = map[string]string{}
				for name, method := range last.methods {
					if answered[name] {
						t.Errorf("seed %d: %s %s is asked again", seed, name, last.requests[name])
					}
					if r.IntN(3) > 0 || method == "roots/list" { // equal requests get their responses together
						responses[name] = respond(method, last.requests[name])
						answered[name] = true
					}
				}
			}
			last = clients[r.IntN(len(clients))].round("tools/call", do, last, responses)
		}
		if last.text != want {
			t.Errorf("seed %d: in rounds: got %q, want %q", seed, last.text, want)
		}
		equal(t, fmt.Sprint("seed ", seed, ": runs of steps"), wantSteps, x.steps)
		for name, n := range x.steps {
			if n != 1 {
				t.Errorf("seed %d: step %s runs %d times", seed, name, n)
			}
		}
		for _, s := range servers {
			s.Close()
		}
	}
}

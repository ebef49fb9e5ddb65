//go:build unix

package jetstreamstore_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/must"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/jetstreamstore"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// program is a process of the fleet under test: a front end or a worker. It is a child of the test,
// which passes it as JSON in the environment.
type program struct {
	Name  string
	NATS  string // URLs of the servers
	Front bool   // serves the protocol, and runs no tasks
	Build string // one of builds
	Log   string // file of what the tasks have done; see logLine
	// Poison is a file. While it exists, a task of the tool poison ends its process.
	Poison string

	log io.Writer
}

const (
	envProgram  = "JETSTREAMSTORE_TEST_PROGRAM"
	fleetName   = "faults" // of the store of tasks
	fleetLease  = 2 * time.Second
	drainTime   = time.Second
	sessionAge  = 6 * time.Hour // more than the clocks are wrong
	sessionSize = 128 << 20
	taskTTL     = 6 * time.Hour
	parkAfter   = 300 * time.Millisecond
	jobSteps    = 4
	sagaSteps   = 2 // in branches of their own
	sagaTries   = 3 // of each step of a saga
	choiceSteps = 2
	oldBuild    = "1" // the two builds of the program
	newBuild    = "2"
	servingLine = "serving " // the line with the URL that a front end prints
	readyLine   = "ready"    // the line that a worker prints
)

// TestMain runs a program in place of the tests if the environment asks for one.
func TestMain(m *testing.M) {
	text := os.Getenv(envProgram)
	if text == "" {
		os.Exit(m.Run())
	}
	var p program
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		err = p.main()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
}

// main runs the program until it gets SIGTERM, and then fails if a goroutine is left. Before it
// serves, it tries again until the servers respond. It exits when the test ends.
func (p *program) main() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	file, err := os.OpenFile(p.Log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	p.log = file
	for {
		started, err := p.run(ctx)
		if started || ctx.Err() != nil {
			return cmp.Or(err, leftGoroutines())
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// leftGoroutines waits until no goroutine of the module is left, except for those of tests. It
// returns an error with their stacks if they do not end.
func leftGoroutines() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		stacks := make([]byte, 16<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left []string
		for _, stack := range strings.Split(string(stacks), "\n\n") {
			for line := range strings.Lines(stack) {
				if strings.HasPrefix(line, "github.com/mcpwire/mcpwire/") && !strings.Contains(line, "_test.") && !strings.Contains(line, "/natstest.") {
					left = append(left, stack)
					break
				}
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
		}
	}
}

// run runs the program until ctx ends. Started tells whether it has begun to serve.
func (p *program) run(ctx context.Context) (started bool, err error) {
	nc, err := nats.Connect(p.NATS, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.IgnoreDiscoveredServers(),
		nats.PingInterval(fleetLease/4), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return false, err
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		return false, err
	}
	store, err := jetstream.Open(ctx, js, jetstream.Options{Name: fleetName, Replicas: 3, Timeout: 10 * time.Second})
	if err != nil {
		return false, err
	}
	defer store.Close()
	s := p.server(store)
	defer s.Close()
	if !p.Front {
		if err := s.Start(ctx); err != nil {
			return false, err
		}
		fmt.Println(readyLine)
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime+5*time.Second)
		defer cancel()
		p.report(s.Shutdown(end))
		return true, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return false, err
	}
	defer listener.Close()
	address := "http://" + listener.Addr().String() + "/mcp"
	sessions, err := jetstreamstore.Open(ctx, js, jetstreamstore.Options{Replicas: 3, MaxAge: sessionAge, MaxBytes: sessionSize})
	if err != nil {
		return false, err
	}
	locator, err := sessions.Join(ctx, jetstreamstore.LocatorOptions{URL: address, Lease: fleetLease})
	if err != nil {
		return false, err
	}
	defer locator.Close()
	if err := s.Start(ctx); err != nil {
		return false, err
	}
	forward := &http.Transport{}
	defer forward.CloseIdleConnections()
	handler := must.Get(s.Handler(&streamable.HandlerOptions{
		Sessions: streamable.Sessions{Store: sessions, Locator: locator, ForwardTransport: forward}, Streams: streamable.Streams{Retry: 50 * time.Millisecond},
		Access: streamable.Access{Principal: func(r *http.Request) (string, error) { return r.Header.Get("Authorization"), nil }},
	}))
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }() // ends with Shutdown
	fmt.Println(servingLine + address)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime+5*time.Second)
	defer cancel()
	p.report(errors.Join(s.Shutdown(end), handler.Shutdown(end), web.Shutdown(end))) // in this order
	web.Close()
	return true, err
}

// report prints the error of a shutdown. It is not a failure: the servers may be out of reach.
func (p *program) report(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: shut down: %v\n", p.Name, err)
	}
}

// server returns the server of the program with its tools.
func (p *program) server(store task.Store) *server.Server {
	member := task.Member{Name: p.Name, Lease: fleetLease}
	if p.Front {
		member.Tools = []string{}
	}
	s := server.New("fleet", p.Build, &server.Options{
		Shared: server.Shared{StateKeys: [][]byte{[]byte(strings.Repeat("k", 32))}}, Limits: server.Limits{Drain: drainTime},
		Tasks: task.Options{
			Store:  store,
			Member: member, TTL: task.TTL{Default: taskTTL, Max: taskTTL}, Recovery: task.Recovery{ParkAfter: parkAfter},
			Limits: task.Limits{Tasks: -1, Bytes: -1, Rate: -1}, Hooks: task.Hooks{Observer: lives{}},
		},
	})
	// A result with a record of the work is not to be had any sooner: each call is a task at once.
	durable := server.Tasks(receiver.Support{Restartable: true, After: -1})
	server.AddTool(s, "job", "", p.job, durable)
	server.AddTool(s, "saga", "", p.saga, durable)
	server.AddTool(s, "strict", "", p.job, durable, server.Version(p.Build))
	if p.Build == oldBuild {
		server.AddTool(s, "lenient", "", p.job, durable, server.Version(oldBuild))
		server.AddTool(s, "removed", "", p.job, durable)
	} else {
		server.AddTool(s, "lenient", "", p.job, durable, server.Version(newBuild, oldBuild))
		server.AddTool(s, "added", "", p.job, durable)
	}
	server.AddTool(s, "poison", "", p.poison, durable)
	server.AddTool(s, "signalled", "", p.signalled, durable)
	server.AddTool(s, "choice", "", p.choice, durable)
	server.AddTool(s, "signal", "", func(ctx context.Context, _ *server.Call, in numbered) (string, error) {
		err := s.Signal(ctx, in.Task, "go", in.Number)
		if _, over := errors.AsType[*task.MoveError](err); over {
			return signalLate, nil
		}
		return signalSent, err
	})
	server.AddTool(s, "pay", "", p.pay, server.Durable())
	server.AddTool(s, "echo", "", func(_ context.Context, _ *server.Call, in named) (string, error) { return in.Name, nil })
	server.AddTool(s, "ask", "", func(ctx context.Context, c *server.Call, in named) (string, error) {
		key, err := server.Step(ctx, c, "key", func(context.Context) (string, error) { return in.Name, nil })
		if err != nil {
			return "", err
		}
		var form answer
		_, err = server.Elicit(ctx, c, in.Name, &form)
		return key + " " + form.Answer, err
	})
	return s
}

// mayFollow reports whether a process of a build may continue a task of a tool that a process of
// another build, or of the same one, has begun.
func mayFollow(tool, begun, build string) bool {
	switch tool {
	case "strict":
		return build == begun
	case "lenient":
		return build == begun || build == newBuild
	case "removed":
		return build == oldBuild
	case "added":
		return build == newBuild
	}
	return true
}

// poison ends its process without a warning while the test wants it to.
func (p *program) poison(context.Context, *server.Call, named) (string, error) {
	if _, err := os.Stat(p.Poison); err != nil {
		return "", err
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		return "", err
	}
	select {} // until the signal arrives
}

// named is the input of all tools.
type named struct{ Name string }

// answer is the form of all input requests. Their message is the name of the call.
type answer struct{ Answer string }

// jobResult is the result of a job.
type jobResult struct {
	Name, Answer string
	Steps        []string
}

// job runs steps with random results, asks once, and sleeps once. It logs what it does.
func (p *program) job(ctx context.Context, c *server.Call, in named) (out jobResult, err error) {
	run, ok := c.Task()
	if !ok {
		return out, errors.New("call this tool as a task")
	}
	l := ctx.Value(lifeKey{}).(life)
	note := func(event logEvent, step int, value string) { logLine{event, run.ID(), l, step, value}.write(p.log) }
	note(logBegin, os.Getpid(), p.Build)
	out.Name = in.Name
	for i := range jobSteps {
		switch i {
		case 1:
			var form answer
			action, err := server.Elicit(ctx, c, in.Name, &form)
			if err != nil {
				return out, err
			}
			out.Answer = form.Answer
			note(logAnswer, 0, fmt.Sprint(action, "/", form.Answer))
		case 2:
			if err := server.Sleep(ctx, c, "nap", func() time.Time { return time.Now().Add(2 * parkAfter) }); err != nil {
				return out, err
			}
		}
		result, err := server.Step(ctx, c, fmt.Sprint("step ", i), func(ctx context.Context) (string, error) {
			note(logRun, i, server.IdempotencyKey(ctx))
			select {
			case <-time.After(time.Duration(mathrand.IntN(150)) * time.Millisecond):
				return rand.Text(), nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
		if err != nil {
			return out, err
		}
		note(logRecorded, i, result)
		out.Steps = append(out.Steps, result)
		if err := c.Progress(float64(i+1), jobSteps, ""); err != nil {
			return out, err
		}
	}
	return out, nil
}

// badLuck is the text of the failures of sagas.
const badLuck = "bad luck"

// timedOut is the answer of an input request that has reached its deadline.
const timedOut = "timed out"

// saga runs steps that fail at random, are repeated, and are to be undone, and asks until a
// deadline. It does so in branches at the same time, and logs what it does.
func (p *program) saga(ctx context.Context, c *server.Call, in named) (out jobResult, err error) {
	run, ok := c.Task()
	if !ok {
		return out, errors.New("call this tool as a task")
	}
	l := ctx.Value(lifeKey{}).(life)
	note := func(event logEvent, step int, value string) { logLine{event, run.ID(), l, step, value}.write(p.log) }
	note(logBegin, os.Getpid(), p.Build)
	out.Name, out.Steps = in.Name, make([]string, sagaSteps)
	branches := []func(context.Context) error{func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 3*parkAfter)
		defer cancel()
		var form answer
		action, err := server.Elicit(ctx, c, in.Name, &form)
		switch {
		case err == nil:
			out.Answer = form.Answer
			note(logAnswer, 0, fmt.Sprint(action, "/", form.Answer))
		case errors.Is(err, context.DeadlineExceeded):
			out.Answer, err = timedOut, nil
			note(logAnswer, 0, timedOut)
		}
		return err
	}}
	for i := range sagaSteps {
		branches = append(branches, func(ctx context.Context) error {
			err := server.Compensate(ctx, c, fmt.Sprint("undo ", i), func(ctx context.Context) error {
				note(logUndo, i, server.IdempotencyKey(ctx))
				return nil
			})
			if err != nil {
				return err
			}
			note(logRegistered, i, "")
			out.Steps[i], err = server.Step(ctx, c, fmt.Sprint("step ", i), func(ctx context.Context) (string, error) {
				note(logRun, i, server.IdempotencyKey(ctx))
				if mathrand.IntN(2) == 0 {
					return "", errors.New(badLuck)
				}
				return rand.Text(), nil
			}, server.Retry{Attempts: sagaTries, Backoff: 2 * parkAfter})
			if _, failed := errors.AsType[*server.StepError](err); failed {
				note(logRecorded, i, badLuck)
			} else if err == nil {
				note(logRecorded, i, out.Steps[i])
			}
			return err
		})
	}
	return out, c.RunAll(ctx, branches...)
}

// numbered is the input of the tool that sends a signal to a task.
type numbered struct {
	Task   string
	Number int
}

// The texts of its results.
const (
	signalSent = "sent"
	signalLate = "the task has ended"
)

// signalled receives two signals.
func (p *program) signalled(ctx context.Context, c *server.Call, in named) (out jobResult, err error) {
	run, ok := c.Task()
	if !ok {
		return out, errors.New("call this tool as a task")
	}
	l := ctx.Value(lifeKey{}).(life)
	logLine{logBegin, run.ID(), l, os.Getpid(), p.Build}.write(p.log)
	out.Name = in.Name
	for i := range 2 {
		number, err := server.Await[int](ctx, c, "go")
		if err != nil {
			return out, err
		}
		out.Steps = append(out.Steps, fmt.Sprint(number))
		logLine{logRecorded, run.ID(), l, i, out.Steps[i]}.write(p.log)
	}
	return out, nil
}

// choice waits for the first of an answer, a signal and a time, between two steps.
func (p *program) choice(ctx context.Context, c *server.Call, in named) (out jobResult, err error) {
	run, ok := c.Task()
	if !ok {
		return out, errors.New("call this tool as a task")
	}
	l := ctx.Value(lifeKey{}).(life)
	note := func(event logEvent, step int, value string) { logLine{event, run.ID(), l, step, value}.write(p.log) }
	note(logBegin, os.Getpid(), p.Build)
	out.Name = in.Name
	for i := range choiceSteps {
		if i == 1 {
			var form answer
			asked := server.OnAnswer(func(ctx context.Context) (mcp.ElicitAction, error) { return server.Elicit(ctx, c, in.Name, &form) })
			sent := server.OnSignal[int]("go")
			first, err := server.Select(ctx, c, "choice", asked, sent, server.After(4*parkAfter))
			switch {
			case err != nil:
				return out, err
			case first == asked:
				out.Answer = fmt.Sprint(asked.Value, "/", form.Answer)
			case first == sent:
				out.Answer = fmt.Sprint("signal ", sent.Value)
			default:
				out.Answer = timedOut
			}
			note(logAnswer, 0, out.Answer)
		}
		result, err := server.Step(ctx, c, fmt.Sprint("step ", i), func(ctx context.Context) (string, error) {
			note(logRun, i, server.IdempotencyKey(ctx))
			return rand.Text(), nil
		})
		if err != nil {
			return out, err
		}
		note(logRecorded, i, result)
		out.Steps = append(out.Steps, result)
	}
	return out, nil
}

// pay is a call that becomes a task, if its client permits, in the process that has received it.
func (p *program) pay(ctx context.Context, c *server.Call, in named) (string, error) {
	step := func(i int) (string, error) {
		return server.Step(ctx, c, fmt.Sprint("step ", i), func(ctx context.Context) (string, error) {
			logLine{logRun, in.Name, life{ID: "pay"}, i, server.IdempotencyKey(ctx)}.write(p.log)
			return in.Name, nil
		})
	}
	charged, err := step(0)
	if err != nil {
		return "", err
	}
	var form answer
	if _, err := server.Elicit(ctx, c, in.Name, &form); err != nil {
		return "", err
	}
	shipped, err := step(1)
	return charged + " " + form.Answer + " " + shipped, err
}

// life is one run of the work of a task.
type life struct {
	Epoch uint64 // of the claim of the task
	ID    string // random
}

type lifeKey struct{}

// lives is a [task.Observer] that adds the life to the context of work.
type lives struct{}

func (lives) Trace(context.Context) string { return "" }

func (lives) Run(ctx context.Context, r task.Record) (context.Context, func(codec.Encoder, error)) {
	return context.WithValue(ctx, lifeKey{}, life{r.Claim.Epoch, rand.Text()}), nil
}

func (lives) Wait(context.Context, *task.Run, string) func(error) { return nil }

// logEvent is what a run of a job has done.
type logEvent string

const (
	logBegin      logEvent = "begin"      // the function of the tool begins; its step is the process, its value the build
	logAnswer     logEvent = "answer"     // it has got an answer
	logRun        logEvent = "run"        // the function of a step begins; its value is the idempotency key
	logRecorded   logEvent = "recorded"   // it has got the result of a step
	logRegistered logEvent = "registered" // it has registered what undoes a step
	logUndo       logEvent = "undo"       // that runs; its value is the idempotency key
)

// logLine is a line of the file in which all programs log what their jobs do.
type logLine struct {
	event logEvent
	task  string
	life  life
	step  int
	value string
}

func (l logLine) write(w io.Writer) {
	fmt.Fprintf(w, "%s %s %d %s %d %s\n", l.event, l.task, l.life.Epoch, l.life.ID, l.step, l.value)
}

func parseLine(text string) (l logLine, err error) {
	fields := strings.SplitN(text, " ", 6)
	if len(fields) != 6 {
		return l, fmt.Errorf("invalid line %q", text)
	}
	l.event, l.task, l.life.ID, l.value = logEvent(fields[0]), fields[1], fields[3], fields[5]
	_, err = fmt.Sscan(fields[2]+" "+fields[4], &l.life.Epoch, &l.step)
	return l, err
}

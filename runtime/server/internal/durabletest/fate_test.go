package durabletest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// mode is how a call is made.
type mode string

const (
	inSession     mode = "plain call in a session"
	inRounds      mode = "plain call in rounds"
	continued     mode = "call in rounds that becomes a task"
	relaxed       mode = "call in rounds that becomes a task that is not durable"
	promoted      mode = "call that becomes a task"
	taskInSession mode = "task in a session"
	taskAtOnce    mode = "task at once"
)

// fate is what happens to a call apart from what its program says.
type fate struct {
	mode         mode
	parks        bool // the handler is parked at each wait
	bolt         bool // the store is a file
	fleet        bool // two members of a fleet
	closes       bool // a process that has died ends its contexts, and its store fails
	disturbances []disturbance
	cancel       time.Duration // when the requestor cancels the call; 0 for never
	shutdown     time.Duration // when the server is shut down; 0 for never
	lost         time.Duration // when the connection of a call in rounds is lost; 0 for never
	restarts     bool          // each round reaches a new process
	partial      bool          // the client sends each response at once
	expires      time.Duration // lifetime of the task; 0 for one that the call does not reach
	change       change        // how the program differs in all processes but the first one
	changed      int           // the number of the step that it concerns; 0 for none
	absent       absence       // what the second process lacks
}

// change is how a program differs in all processes but the first one.
type change string

const (
	renamed  change = "renamed"
	inserted change = "preceded by another one"
	removed  change = "removed"
)

// absence is what the second process lacks. It ends after some time.
type absence string

const (
	noTool       absence = "has no tool"
	lateTool     absence = "gets its tool later"
	otherVersion absence = "has another version of the tool"
)

// Times of the second process if it lacks something.
const (
	absentFor = 5 * time.Second
	lateFor   = 2 * time.Second
)

func (f fate) String() string {
	text := string(f.mode)
	for _, option := range []struct {
		on   bool
		text string
	}{
		{f.parks, "parks"}, {f.bolt, "bolt"}, {f.fleet, "fleet"}, {f.closes, "dead processes close"}, {f.restarts, "each round in a new process"},
		{f.partial, "responses one by one"},
	} {
		if option.on {
			text += ", " + option.text
		}
	}
	if f.changed > 0 {
		text += fmt.Sprintf(", step %d %s in the next process", f.changed, f.change)
	}
	if f.absent != "" {
		text += fmt.Sprintf(", the next process %s", f.absent)
	}
	for _, d := range f.disturbances {
		text += "; " + d.String()
	}
	for _, at := range []struct {
		after time.Duration
		text  string
	}{{f.cancel, "cancelled"}, {f.shutdown, "shut down"}, {f.lost, "connection lost"}, {f.expires, "expired"}} {
		if at.after > 0 {
			text += fmt.Sprintf("; %s after %v", at.text, at.after)
		}
	}
	return text
}

func (f fate) tasks() bool  { return f.mode != inSession && f.mode != inRounds }
func (f fate) modern() bool { return f.mode != inSession && f.mode != taskInSession }

// changes reports whether a step differs in all processes but the first one.
func (f fate) changes(n *node) bool { return n.id == f.changed && n.kind == step }

// rounds reports whether input requests may end rounds.
func (f fate) rounds() bool {
	return f.mode == inRounds || f.mode == continued || f.mode == relaxed || f.mode == promoted
}

// begins reports whether the first round is that of a plain call, and a later one may become a task.
func (f fate) begins() bool { return f.mode == continued || f.mode == relaxed }

// kind returns the kind of the disturbance.
func (f fate) kind() string {
	switch {
	case f.fleet:
		return "fleet"
	case f.bolt:
		return "bolt"
	case f.changed > 0:
		return string(f.change)
	case f.absent != "":
		return string(f.absent)
	case f.expires > 0:
		return "expires"
	case f.cancel > 0:
		return "cancelled"
	case f.shutdown > 0:
		return "shut down"
	case f.lost > 0:
		return "lost"
	case f.partial:
		return "partial"
	case f.restarts:
		return "restarts"
	case len(f.disturbances) > 0:
		return string(f.disturbances[0].act)
	}
	return ""
}

// process is one process of the server.
type process struct {
	w      *world
	t      *testing.T
	number int
	slot   int // among the processes that live at the same time
	store  task.Store
	s      *server.Server

	dead     atomic.Bool   // it has died: nothing that it does has an effect
	shut     atomic.Bool   // it has shut down
	ends     chan struct{} // closed when it dies or begins to shut down
	next     chan *process // the process after it
	replaced sync.Once

	mu   sync.Mutex
	conn transport.Conn // of the client
}

func (p *process) isDead() bool { return p.dead.Load() }

// gone reports whether the process has died or shut down.
func (p *process) gone() bool { return p.dead.Load() || p.shut.Load() }

// ending reports whether the process dies or shuts down.
func (p *process) ending() bool {
	select {
	case <-p.ends:
		return true
	default:
		return false
	}
}

// crash lets the process die, even while it shuts down.
func (p *process) crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone() {
		return
	}
	p.dead.Store(true)
	p.end()
	if fleet, ok := p.store.(*memory.FleetStore); ok {
		fleet.Cut()
	}
	go func() { // ends with the boot of the next process
		p.w.note("process %d has died", p.number)
		if p.w.fate.closes {
			go p.s.Close()
		}
		p.replace()
	}()
}

// shutDown shuts the process down.
func (p *process) shutDown() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ending() {
		return
	}
	p.end()
	go func() { // ends with the shutdown, or at the end of the test
		p.w.note("process %d shuts down", p.number)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		err := p.s.Shutdown(ctx)
		if !p.isDead() {
			p.w.hasShutDown(p, err)
			p.replace()
		}
	}()
}

// end ends the connection of the process. The caller holds mu.
func (p *process) end() {
	if !p.ending() {
		close(p.ends)
	}
	if p.conn != nil && p.dead.Load() {
		go p.conn.Close()
	}
}

// replace boots the next process.
func (p *process) replace() { p.replaced.Do(func() { p.next <- p.w.boot(p.t, p.slot) }) }

// hasShutDown records that a process has shut down.
func (w *world) hasShutDown(p *process, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.shut.Store(true)
	now := w.event("process %d has shut down: %v", p.number, err)
	if err != nil {
		w.violate("Shutdown: %v", err)
	}
	if !w.fate.tasks() {
		return
	}
	for _, op := range w.ops {
		for _, e := range op.undos {
			if e.run.process == p && e.ended > 0 && e.ended < now && !e.interrupted && strings.HasPrefix(e.outcome, "done ") && !w.persisted[undoneOf(op.identity)] && e.run.durable() {
				w.violate("the undo of %s at %s has ended before the shutdown, which was not recorded", op.node.name(), op.path)
			}
		}
		for _, e := range op.executions {
			if e.run.process == p && e.ended > 0 && e.ended < now && !e.interrupted && w.recorded[e.token] == 0 && e.run.durable() {
				w.violate("%s at %s has ended before the shutdown, and its outcome was not recorded", op.node.name(), op.path)
			}
		}
	}
}

// boot starts a process.
func (w *world) boot(t *testing.T, slot int) *process {
	w.mu.Lock()
	w.processes++
	p := &process{w: w, t: t, number: w.processes, slot: slot, store: w.store(), ends: make(chan struct{}), next: make(chan *process, 1)}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.booted = append(w.booted, p)
	}()
	silent := slog.New(slog.DiscardHandler)
	if *verbose {
		silent = slog.New(slog.NewTextHandler(logWriter{w}, nil))
	}
	cfg := &server.Options{
		Logger: silent, Shared: server.Shared{StateKeys: [][]byte{[]byte(strings.Repeat("k", 32))}}, Limits: server.Limits{InputTimeout: -1},
		Tasks: task.Options{Store: &processStore{p.store, w, p}, Recovery: task.Recovery{ParkAfter: -1, MaxReruns: -1}, TTL: task.TTL{Default: 1000 * time.Hour, Max: 1000 * time.Hour}, Limits: task.Limits{Rate: -1}, Logger: silent},
	}
	cfg.Session.Principal = "ada"
	if w.fate.expires > 0 {
		cfg.Tasks.TTL.Default, cfg.Tasks.TTL.Max = w.fate.expires, w.fate.expires
	}
	if w.fate.fleet {
		cfg.Tasks.Member.Lease = 3 * time.Second
	}
	if w.fate.parks {
		cfg.Tasks.Recovery.ParkAfter = 7 * time.Millisecond
	}
	p.s = server.New("durable", "1", cfg)
	support := receiver.Support{Restartable: w.fate.mode != relaxed, After: -1}
	switch w.fate.mode {
	case promoted:
		support.After = 61 * time.Millisecond
	case relaxed:
		support.After = 11 * time.Millisecond // while steps run
	}
	w.addTool(p, support)
	started := make(chan struct{})
	go func() { // ends when the process has started or is over
		defer close(started)
		for {
			err := p.s.Start(context.Background())
			if err == nil || p.ending() {
				return
			}
			if !errors.Is(err, errFault) {
				panic(err)
			}
			time.Sleep(time.Second)
		}
	}()
	select {
	case <-started:
	case <-p.ends:
	}
	return p
}

// addTool adds the tool to a process, unless the process lacks it. A process that lacks something
// shuts down after some time.
func (w *world) addTool(p *process, support receiver.Support) {
	version := "1"
	add := func() {
		server.AddTool(p.s, "do", "", func(ctx context.Context, c *server.Call, _ map[string]any) (*mcp.CallToolResult, error) {
			text, err := w.handle(ctx, c, p)
			return &mcp.CallToolResult{Content: []mcp.ContentBlock{&mcp.TextContent{Text: text}}}, err
		}, server.Tasks(support), server.Version(version))
	}
	if p.number != 2 {
		add()
		return
	}
	switch w.fate.absent {
	case "":
		add()
		return
	case noTool:
	case lateTool:
		time.AfterFunc(lateFor, add)
		return
	case otherVersion:
		version = "2"
		add()
	}
	time.AfterFunc(absentFor/2, func() { w.waits(p) })
	time.AfterFunc(absentFor, p.shutDown)
}

// waits checks that a task says why it waits for a process that can run it.
func (w *world) waits(p *process) {
	id := w.task()
	if id == "" || p.ending() || w.schedule.ended() {
		return
	}
	r, err := p.s.Tasks().Get(context.Background(), "ada", id, nil)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.violate("the state of a task that waits: %v", err)
	case !task.Terminal(r.Status) && (r.StatusMessage == nil || *r.StatusMessage == ""):
		w.violate("a task that waits for a process with its tool does not say so")
	}
}

type logWriter struct{ w *world }

func (l logWriter) Write(text []byte) (int, error) {
	go l.w.note("log: %s", strings.TrimSpace(string(text))) // in case that mu is held
	return len(text), nil
}

// connect connects a client, which may support tasks.
func (p *process) connect(ctx context.Context, tasks bool) (*client.Client, error) {
	here, there := inmemory.Pair(inmemory.Options{})
	p.mu.Lock()
	p.conn = here
	p.mu.Unlock()
	if p.ending() {
		here.Close()
	}
	if _, err := p.s.Serve(there); err != nil {
		here.Close()
		return nil, err
	}
	o := &client.Options{
		Limits: client.Limits{InputRequests: -1, InputRounds: -1}, Features: client.Features{NoTasks: !tasks},
		Input: client.Input{Fill: func(ctx context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
			if p.isDead() {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return p.w.fill(ctx, f.Message)
		}},
	}
	o.Session.Revisions = session.Revisions()
	if p.w.fate.modern() {
		o.Session.Revisions = session.ModernRevisions()
	}
	return client.Connect(ctx, here, o)
}

// fill answers an input request as the user does.
func (w *world) fill(ctx context.Context, message string) (*mcp.ElicitResult, error) {
	q := w.asks(message)
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		q.open--
	}()
	timer := time.NewTimer(q.node.thinks)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		w.note("%q is withdrawn", message)
		return nil, context.Cause(ctx)
	}
	if q.node.fails {
		w.note("the user declines %q", message)
		return client.Decline(), nil
	}
	return client.Accept(map[string]any{"name": w.answers(q)})
}

// outcome is how a call has ended, as its requestor sees it.
type outcome struct {
	text string // of the result
	err  string // text of a result that is an error, or of the error of the request
	rpc  bool   // the request has failed
}

// lost is the outcome of a call whose connection was lost.
var errLost = errors.New("the call was lost")

func (w *world) outcome(r *mcp.CallToolResult, err error) outcome {
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return outcome{err: rpc.Message, rpc: true}
	}
	if err != nil {
		return outcome{err: err.Error(), rpc: true}
	}
	text := r.Content[0].(*mcp.TextContent).Text
	if r.IsError != nil && *r.IsError {
		return outcome{err: text}
	}
	return outcome{text: text}
}

// play lets a program run with a fate, and returns what has happened.
func play(t *testing.T, program *node, f fate) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(program, f)
		w.schedule = &schedule{disturbances: f.disturbances}
		switch {
		case f.fleet:
			fleet := memory.NewFleet()
			w.store = func() task.Store { return fleet.Store() }
		case f.bolt:
			store, err := bolt.Open(filepath.Join(t.TempDir(), "tasks.db"))
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			w.store = func() task.Store { return store }
		default:
			store := memory.New()
			w.store = func() task.Store { return store }
		}
		ctx, cancel := context.WithTimeout(context.Background(), w.patience())
		defer cancel()
		w.current = append(w.current, w.boot(t, 0))
		if f.fleet {
			w.current = append(w.current, w.boot(t, 1))
		}
		w.call(ctx)
		w.duration = time.Since(w.began)
		w.finish()
	})
	return w
}

// finish ends all processes.
func (w *world) finish() {
	w.schedule.end()
	synctest.Wait() // a process may be about to die
	for slot := range w.current {
		w.living(slot)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	close(w.over)
	for _, p := range w.current {
		if err := p.s.Shutdown(ctx); err != nil {
			w.mu.Lock()
			w.violate("Shutdown at the end: %v", err)
			w.mu.Unlock()
		}
	}
	for _, old := range w.old {
		old.s.Close()
	}
	w.sending.Wait()
	w.note("the end")
}

// living returns the process of a slot that serves.
func (w *world) living(slot int) *process {
	for w.current[slot].ending() { // even if it has just been booted
		w.old = append(w.old, w.current[slot])
		w.current[slot] = <-w.current[slot].next
	}
	return w.current[slot]
}

// process returns a process that serves: in a fleet, another one each time.
func (w *world) process() *process {
	w.connections++
	return w.living(w.connections % len(w.current))
}

// call makes the call, and compares its outcome with that of the model.
func (w *world) call(ctx context.Context) {
	if w.fate.shutdown > 0 {
		first := w.current[0]
		time.AfterFunc(w.fate.shutdown, func() {
			if w.schedule.ended() {
				return
			}
			w.mu.Lock()
			w.disturbed = true
			w.mu.Unlock()
			first.shutDown()
		})
	}
	var out outcome
	var err error
	switch w.fate.mode {
	case inSession:
		out, err = w.callInSession(ctx)
	case inRounds, continued, relaxed:
		out, err = w.callInRounds(ctx)
	default:
		out, err = w.callAsTask(ctx, "")
	}
	if err == nil {
		w.note("the outcome is %+v", out)
	} else {
		w.note("the call ends with %v", err)
	}
	w.mu.Lock()
	if ctx.Err() != nil {
		w.violate("the call does not end")
	}
	if strings.Contains(out.err, errFault.Error()) {
		w.violate("the client gets the text of the store's error: %q", out.err)
	}
	cancelled := w.withdrawn() && out.rpc
	invalid := w.changed || w.refused || w.fate.changed > 0 && strings.Contains(out.err, nondeterministic)
	if w.overlapped && err == nil && !cancelled && !w.disturbed && !strings.Contains(out.err, overlaps) && (out.err == "" || w.undoing.IsZero()) {
		w.violate("operations of one branch have overlapped, and the outcome is %+v", out)
	}
	w.mu.Unlock()
	w.awaitUndos(err != nil || cancelled)
	if err == nil {
		w.takesNoSignals()
	}
	if invalid { // the outcome does not depend on the program alone
		return
	}
	text, failed := w.check(err != nil || cancelled)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case cancelled:
	case w.cancelled > 0:
		w.violate("the task was cancelled, and has the outcome %+v", out)
	case failed == errPanic, failed == errGarbled:
		if !out.rpc {
			w.violate("the handler panics or has a result that cannot be sent, and the outcome is %+v", out)
		}
	case failed == errCut:
	case failed != nil:
		if out != (outcome{err: failed.Error()}) {
			w.violate("the outcome is %+v, want the error %q", out, failed)
		}
	case out != (outcome{text: text}):
		w.violate("the outcome is %+v, want %q", out, text)
	}
}

// patience returns how long a call may take, and then its undos. A changed program may not come to
// an undo of an earlier run; then it runs again for a day.
func (w *world) patience() time.Duration {
	if w.fate.changed > 0 {
		return taskrules.MaxUndoTime + time.Hour
	}
	return 10 * time.Minute
}

// awaitUndos waits until the undos of a call have ended.
func (w *world) awaitUndos(cut bool) {
	if !w.program.has(func(n *node) bool { return n.kind == register }) {
		return
	}
	id := w.task()
	if cut && (id == "" || w.fate.mode == relaxed) { // they run after the end of the call
		time.Sleep(10 * time.Second)
	}
	for begun := time.Now(); time.Since(begun) < w.patience(); {
		if id == "" {
			return
		}
		r, err := w.living(0).store.Get(context.Background(), id)
		if errors.Is(err, task.ErrNotFound) || err == nil && task.Terminal(r.Status) {
			return
		}
		time.Sleep(time.Second)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violate("the undos of the task do not end")
}

// callInSession makes a plain call in a session. It is lost with the connection.
func (w *world) callInSession(ctx context.Context) (outcome, error) {
	p := w.process()
	c, err := p.connect(ctx, false)
	if err != nil {
		return outcome{}, errLost
	}
	defer c.Close()
	if w.fate.cancel > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.fate.cancel)
		defer cancel()
	}
	result, err := c.With(session.Timeout(0)).CallTool(ctx, &mcp.CallToolRequestParams{Name: "do"})
	if p.ending() || w.fate.cancel > 0 && ctx.Err() != nil {
		return outcome{}, errLost
	}
	if err != nil {
		return w.outcome(nil, err), nil
	}
	return w.outcome(result.(*mcp.CallToolResult), nil), nil
}

// callInRounds makes a plain call of a revision without sessions. Each round may reach another
// process. A client whose connection is lost sends the request of the round again. In the modes
// continued and relaxed, the client supports tasks from the second round on.
func (w *world) callInRounds(ctx context.Context) (outcome, error) {
	params := &mcp.CallToolRequestParams{Name: "do"}
	began, lost, whole := time.Now(), false, ctx
	if w.fate.cancel > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.fate.cancel)
		defer cancel()
	}
	for round := 1; ; round++ {
		p := w.process()
		if w.fate.restarts && round > 1 {
			p.shutDown()
			p = w.process()
		}
		c, err := p.connect(ctx, w.fate.begins() && round > 1)
		if err != nil {
			if p.ending() {
				continue
			}
			return outcome{}, errLost
		}
		request, end := context.WithCancel(ctx)
		if w.fate.lost > 0 && !lost {
			time.AfterFunc(time.Until(began.Add(w.fate.lost)), func() { c.Close() })
		}
		result, err := c.With(session.Timeout(0)).CallTool(request, params)
		end()
		c.Close()
		cancelled := w.fate.cancel > 0 && ctx.Err() != nil
		switch {
		case err != nil && cancelled:
			return outcome{}, errLost
		case err != nil && (p.ending() || w.fate.lost > 0 && !lost && time.Since(began) >= w.fate.lost):
			lost = true
			if id := w.task(); id != "" { // created, but not acknowledged
				return w.callAsTask(whole, id)
			}
			if params.RequestState == nil {
				return outcome{}, errLost // another request is another call
			}
			time.Sleep(time.Second) // the handler returns
			w.forget()
			continue
		case err != nil && w.isDisturbed() && isTemporary(err):
			w.forget()
			time.Sleep(time.Second)
			continue
		case err != nil:
			return w.outcome(nil, err), nil
		}
		required, ok := result.(*mcp.InputRequiredResult)
		if !ok {
			complete := result.(*mcp.CallToolResult)
			if _, isTask := complete.Extra.Get("taskId"); isTask {
				return w.callAsTask(whole, w.task())
			}
			return w.outcome(complete, nil), nil
		}
		w.roundEnds(len(required.InputRequests))
		params = &mcp.CallToolRequestParams{Name: "do", InputResponses: w.respond(ctx, required.InputRequests), RequestState: required.RequestState}
		w.roundEnds(0)
		if w.fate.cancel > 0 && ctx.Err() != nil {
			return outcome{}, errLost
		}
	}
}

// respond returns responses to input requests: to all of them, or to the first that the user
// answers.
func (w *world) respond(ctx context.Context, requests mcp.InputRequests) mcp.InputResponses {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	responses := mcp.InputResponses{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for key, request := range requests {
		group.Go(func() {
			form := request.(*mcp.ElicitRequest).Params.(*mcp.ElicitRequestFormParams)
			answer, err := w.fill(ctx, form.Message)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			responses[key] = answer
			if w.fate.partial {
				cancel()
			}
		})
	}
	group.Wait()
	return responses
}

// callAsTask makes a call that is or becomes a task, or waits for the task with an id.
func (w *world) callAsTask(ctx context.Context, id string) (outcome, error) {
	began := time.Now()
	for {
		p := w.process()
		c, err := p.connect(ctx, true)
		if err != nil {
			if p.ending() {
				continue
			}
			return outcome{}, fmt.Errorf("connect: %w", err)
		}
		h := c.AttachTool(id)
		if id == "" {
			request, withdraw := context.WithCancel(ctx)
			w.mu.Lock()
			w.withdraw = withdraw
			w.mu.Unlock()
			h, err = c.StartTool(request, "do", nil)
			withdrawn := request.Err() != nil
			withdraw()
			switch {
			case err != nil && withdrawn:
				time.Sleep(5 * time.Second) // a late result comes
				c.Close()
				w.isOver()
				return outcome{}, errLost
			case err == nil && h.ID() != "":
				id = h.ID()
				w.note("the requestor has task")
			case err == nil: // the result of a plain call
				result, err := h.Result(ctx)
				c.Close()
				return w.outcome(result, err), nil
			case p.ending():
				c.Close()
				if id = w.task(); id != "" { // created, but not acknowledged
					continue
				}
				return outcome{}, errLost
			default:
				c.Close()
				if w.isRefused(err) {
					return outcome{}, errLost
				}
				return w.outcome(nil, err), nil
			}
		}
		if w.fate.cancel > 0 {
			w.cancelLater(ctx, h.Cancel, began)
		}
		result, err := h.Result(ctx)
		c.Close()
		if err != nil && p.ending() {
			continue
		}
		if err != nil && ctx.Err() == nil && w.isDisturbed() && isTemporary(err) {
			w.note("temporary: %v", err)
			time.Sleep(time.Second)
			continue
		}
		return w.outcome(result, err), nil
	}
}

// isRefused reports whether the server has refused the call while its store fails. Then the call
// has no effects. Otherwise, err is the outcome of a plain call.
func (w *world) isRefused(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, op := range w.ops {
		if len(op.executions) > 0 || !op.until.IsZero() {
			return false
		}
	}
	if w.disturbed {
		w.event("refused: %v", err)
	}
	return w.disturbed
}

// cancelRequest ends the context of the request that creates the task.
func (w *world) cancelRequest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.withdraw != nil {
		w.event("the requestor cancels the request")
		w.cancelling = true
		w.withdraw()
	}
}

// isOver checks that the task of a request that was cancelled has ended, or is being undone.
func (w *world) isOver() {
	id := w.task()
	if id == "" {
		return
	}
	r, err := w.living(0).store.Get(context.Background(), id)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
	case r.Status == mcp.TaskStatusCompleted:
		w.completed = true
	case !task.Terminal(r.Status) && (r.Durable == nil || r.Durable.Undo == taskrules.UndoNone):
		w.violate("the request was cancelled, and its task has the status %s", r.Status)
	}
}

// cancelLater cancels the task when the time has come.
func (w *world) cancelLater(ctx context.Context, cancel func(context.Context) (mcp.Task, error), began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancelled > 0 {
		return
	}
	time.AfterFunc(time.Until(began.Add(w.fate.cancel)), func() {
		w.mu.Lock()
		w.cancelling = true
		w.mu.Unlock()
		state, err := cancel(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		now := w.event("cancelled: %s, %v", state.Status, err)
		if state.Status == mcp.TaskStatusCancelled {
			w.cancelled, w.cancelledAt = now, time.Now()
		}
	})
}

// isTemporary reports whether an error of a request about a task says nothing about the task.
func isTemporary(err error) bool {
	rpc, ok := errors.AsType[*jsonrpc.Error](err)
	return !ok || strings.Contains(rpc.Message, "not available")
}

func (w *world) isDisturbed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.disturbed
}

// created records that a task was created.
func (w *world) created(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.event("the task is created")
	if w.taskID == "" {
		w.beginSignals()
	}
	w.taskID = id
}

func (w *world) task() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taskID
}

package embedtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/embed"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
	"github.com/mcpwire/mcpwire/runtime/task/receiver"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// operation is an operation of the handler that is killed.
type operation struct {
	kind       byte   // 's' for a step, 'i' for an input request, 'z' for a sleep
	name       string // of the step or the sleep
	occurrence int
}

// operations are ten steps, some with the same name, three input requests and two sleeps.
var operations = func() (list []operation) {
	occurrences := map[string]int{}
	for n, kind := range []byte("ssisszssisszsis") {
		o := operation{kind: kind, name: fmt.Sprintf("%c%d", kind, n%7)}
		occurrences[o.name]++
		o.occurrence = occurrences[o.name]
		list = append(list, o)
	}
	return list
}()

// logged is a line of the log of a server. The log is independent of the store.
type logged struct {
	What  string // "run", "begin" of a step or a sleep, or "done" after an operation has returned a result
	Key   string // argument of the call
	N     int    // of the operation
	Value string // result of the operation
	Once  string // idempotency key of the step
}

// killedTools returns the tools of the server that is killed, and their task support. The tool
// "task" is a task from the beginning, and the tool "call" becomes one.
func killedTools(write func(logged)) ([]Tool, map[string]embed.Tool) {
	run := func(ctx context.Context, c Caller) (*Result, error) {
		var in struct{ Key string }
		if err := json.Unmarshal(c.Arguments(), &in); err != nil {
			return nil, err
		}
		write(logged{What: "run", Key: in.Key})
		var values []string
		for n, o := range operations {
			var value string
			var err error
			switch o.kind {
			case 's':
				value, err = c.Step(ctx, o.name, func(ctx context.Context) (string, error) {
					value := rand.Text()
					write(logged{"begin", in.Key, n, value, c.IdempotencyKey(ctx)})
					return value, nil
				})
			case 'i':
				_, value, err = c.Elicit(ctx, fmt.Sprintf("%s %d", in.Key, n))
			case 'z':
				err = c.Sleep(ctx, o.name, func() time.Time {
					until := time.Now().Add(mathrand.N(10 * time.Millisecond)).Truncate(time.Millisecond)
					write(logged{What: "begin", Key: in.Key, N: n, Value: until.Format(time.RFC3339Nano)})
					return until
				})
			}
			if err != nil {
				return nil, err
			}
			values = append(values, value)
			if o.kind == 'z' {
				value = time.Now().Format(time.RFC3339Nano)
			}
			write(logged{What: "done", Key: in.Key, N: n, Value: value})
		}
		return text("%s", strings.Join(values, " "))
	}
	schema := json.RawMessage(`{"type":"object"}`)
	return []Tool{
			{Name: "task", Description: "Runs as a task.", InputSchema: schema, Run: run},
			{Name: "call", Description: "Becomes a task.", InputSchema: schema, Run: run},
		}, map[string]embed.Tool{
			"task": {Support: receiver.Support{Restartable: true, After: atOnce}},
			"call": {Support: receiver.Support{Restartable: true, After: soon}},
		}
}

// serveUntilKilled serves tasks of sessions on standard input and output, and modern requests on a
// socket.
func serveUntilKilled(s childSetup, subject Subject, store task.Store) error {
	file, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	f := s.Setup.fixture(store, nil)
	f.Tools, f.Options.Tools = killedTools(func(l logged) { // one write, so that a kill leaves only complete lines
		text, _ := json.Marshal(l)
		if _, err := file.Write(append(text, '\n')); err != nil {
			panic(err)
		}
	})
	endpoint, err := subject.Serve(f)
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", filepath.Join(s.Dir, "socket"))
	if err != nil {
		return err
	}
	go http.Serve(listener, endpoint.Handler) // ends with the process
	return endpoint.Stdio(context.Background())
}

// killedTask is a task of the server that is killed.
type killedTask struct {
	id, key string
	way     string // "session" for a task of a session; otherwise the tool, "task" or "call"
	result  string // "" until a client has received it
}

// killTest records the tasks of the server that it kills.
type killTest struct {
	*testing.T
	subject Subject
	dir     string

	mu         sync.Mutex
	unfinished map[string]*killedTask // by id
	finished   map[string]*killedTask
	begun      map[string][]logged // beginnings of steps and sleeps, by key and number
	recorded   map[string]string   // results of operations by key and number
	given      map[string]int      // number of responses to input requests, by key and number
	asker      map[string]string   // key and number by response
	confirmed  map[string]string   // the response that the server has acknowledged
	once       map[string]string   // key and number by idempotency key
	asked      map[string]bool     // input requests of the current process
	runs       int
}

// operation returns the key and the number of an operation, which is also the message of its input
// request.
func (l *logged) operation() string { return fmt.Sprintf("%s %d", l.Key, l.N) }

// answer returns the response to an input request, whose message is its key and number.
func (k *killTest) answer(message string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if value, ok := k.recorded[message]; ok {
		k.Errorf("%s is asked again after the response %s was recorded", message, value)
	}
	if value, ok := k.confirmed[message]; ok {
		k.Errorf("%s is asked again after the response %s was acknowledged", message, value)
	}
	if k.asked[message] {
		k.Errorf("%s is asked twice by one process", message)
	}
	k.asked[message] = true
	value := rand.Text()
	k.given[message]++
	k.asker[value] = message
	return value
}

// record records the result of an operation. It reports an error if another one was recorded.
func (k *killTest) record(operation, value string) {
	if old, ok := k.recorded[operation]; ok && old != value {
		k.Errorf("%s has the result %s, it was recorded as %s", operation, value, old)
	}
	k.recorded[operation] = value
}

// readLog reads and checks the log of the last server, and removes it.
func (k *killTest) readLog() {
	name := filepath.Join(k.dir, "log")
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.Remove(name)
	}
	if err != nil {
		k.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // a kill ends a write between two pages
		}
		var l logged
		if err := json.Unmarshal(line, &l); err != nil {
			k.Fatalf("%s: %v", line, err)
		}
		operation := l.operation()
		switch l.What {
		case "run":
			k.runs++
		case "begin":
			if value, ok := k.recorded[operation]; ok {
				k.Errorf("%s runs again after its result %s was recorded", operation, value)
			}
			if l.Once != "" {
				if other, ok := k.once[l.Once]; ok && other != operation {
					k.Errorf("%s has the idempotency key of %s", operation, other)
				}
				k.once[l.Once] = operation
				if before := k.begun[operation]; before != nil && before[0].Once != l.Once {
					k.Errorf("%s runs again with another idempotency key", operation)
				}
			}
			k.begun[operation] = append(k.begun[operation], l)
		case "done":
			switch o := operations[l.N]; o.kind {
			case 's':
				if !slices.ContainsFunc(k.begun[operation], func(b logged) bool { return b.Value == l.Value }) {
					k.Errorf("%s has the result %s, which no run of it has returned", operation, l.Value)
				}
				k.record(operation, l.Value)
			case 'i':
				if k.asker[l.Value] != operation {
					k.Errorf("%s has the response %s, which no client has sent", operation, l.Value)
				}
				if value, ok := k.confirmed[operation]; ok && value != l.Value {
					k.Errorf("%s has the response %s, the server has acknowledged %s", operation, l.Value, value)
				}
				k.record(operation, l.Value)
			case 'z':
				begun := k.begun[operation]
				until, _ := time.Parse(time.RFC3339Nano, begun[len(begun)-1].Value)
				if ended, _ := time.Parse(time.RFC3339Nano, l.Value); ended.Before(until) {
					k.Errorf("%s ends at %s, before %s", operation, ended, until)
				}
				k.record(operation, "")
			}
		}
	}
}

// check compares the log and the acknowledgments with the store. No server is running.
func (k *killTest) check() {
	k.readLog()
	store, err := bolt.Open(filepath.Join(k.dir, "tasks"))
	if err != nil {
		k.Fatal(err)
	}
	defer store.Close()
	stored := map[string]bool{}
	var open []string
	for r, err := range store.Scan(k.Context()) {
		if err != nil {
			k.Fatal(err)
		}
		stored[r.ID] = true
		if !task.Terminal(r.Status) {
			open = append(open, r.ID)
		} else if r.Status != mcp.TaskStatusCompleted {
			k.Errorf("task %s is %s: %s", r.ID, r.Status, r.StatusMessage)
		}
		if k.finished[r.ID] != nil && r.Status != mcp.TaskStatusCompleted {
			k.Errorf("task %s is %s again", r.ID, r.Status)
		}
	}
	for _, known := range []map[string]*killedTask{k.unfinished, k.finished} {
		for id := range known {
			if !stored[id] {
				k.Errorf("task %s is lost", id)
			}
		}
	}
	for _, id := range open {
		k.checkJournal(store, id)
	}
}

// checkJournal compares the journal of a task with the log.
func (k *killTest) checkJournal(store task.Store, id string) {
	r, err := store.Get(k.Context(), id)
	if err != nil {
		k.Fatal(err)
	}
	entries, err := store.Journal(k.Context(), id)
	if err != nil {
		k.Fatal(err)
	}
	key := unquote(part(string(r.Params), "arguments", "Key"))
	if k.unfinished[id] == nil { // the server was killed before it acknowledged the task
		way := r.Name
		if !r.Protocol.Traits().Sessionless {
			way = "session"
		}
		k.unfinished[id] = &killedTask{id: id, key: key, way: way}
	}
	inJournal := map[string]bool{}
	for _, e := range entries {
		if e.Kind == taskrules.KindAnswer {
			value := unquote(part(string(e.Result), "content", "name"))
			if message, ok := k.asker[value]; ok { // otherwise it is the response of a round, which precedes the task
				inJournal[message] = true
				k.record(message, value)
			}
			continue
		}
		n := slices.IndexFunc(operations, func(o operation) bool { return o.name == e.Key && o.occurrence == e.Occurrence })
		if n < 0 {
			continue
		}
		operation := (&logged{Key: key, N: n}).operation()
		inJournal[operation] = true
		if operations[n].kind == 's' {
			k.record(operation, strings.Trim(string(e.Result), `"`))
		} else {
			k.record(operation, "")
		}
	}
	for _, q := range r.InputRequests {
		if q.Open() {
			message := unquote(part(string(q.Params), "message"))
			if value, ok := k.confirmed[message]; ok {
				k.Errorf("%s is open, the server has acknowledged the response %s", message, value)
			}
			continue
		}
		value := unquote(part(string(q.Result), "content", "name"))
		message, ok := k.asker[value]
		if !ok {
			k.Errorf("no client has sent the response %s in the journal of task %s", q.Result, id)
			continue
		}
		inJournal[message] = true
		k.record(message, value)
	}
	for n, o := range operations {
		operation := (&logged{Key: key, N: n}).operation()
		if _, ok := k.recorded[operation]; ok && o.kind != 'i' && !inJournal[operation] {
			k.Errorf("%s of task %s is not in its journal", operation, id)
		}
		if value, ok := k.confirmed[operation]; ok && k.recorded[operation] != value {
			k.Errorf("%s has the response %q, the server has acknowledged %s", operation, k.recorded[operation], value)
		}
	}
}

// killedServer is one server process and its clients.
type killedServer struct {
	*killTest
	ctx     context.Context // ends with the process
	process stdio.Process
	client  *client.Client // in a session
	web     *http.Client   // for modern requests
	drivers sync.WaitGroup
	stderr  lockedBuffer
}

// start starts a server, creates tasks, and drives all unfinished ones.
func (k *killTest) start(create bool) (s *killedServer, kill func()) {
	k.Helper()
	os.Remove(filepath.Join(k.dir, "socket"))
	ctx, cancel := context.WithCancel(k.Context())
	s = &killedServer{killTest: k, ctx: ctx}
	setup, err := json.Marshal(childSetup{Subject: k.subject.Name, Dir: k.dir, Killed: true, Setup: setup{
		Principals: true, ParkAfter: time.Millisecond, MaxReruns: -1, // many kills come before any progress
	}})
	if err != nil {
		k.Fatal(err)
	}
	s.process, err = stdio.Start(stdio.Command{Path: os.Args[0], Env: append(os.Environ(), childEnv+"="+string(setup)), Stderr: &s.stderr})
	if err != nil {
		k.Fatal(err)
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(k.dir, "socket"))
	}
	s.web = &http.Client{Transport: &http.Transport{DialContext: dial}}
	s.client, err = client.Connect(ctx, s.process, &client.Options{
		Limits:  client.Limits{InputRequests: -1},
		Session: session.Options{Revisions: session.Revisions()},
		Input: client.Input{Fill: func(_ context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
			return client.Accept(map[string]any{"name": k.answer(f.Message)})
		}},
	})
	if err != nil {
		k.Fatalf("%v\n%s", err, s.stderr.String())
	}
	k.asked = map[string]bool{}
	ways := map[string]int{}
	for _, known := range slices.Collect(maps.Values(k.unfinished)) {
		s.drive(known)
		ways[known.way]++
	}
	if create {
		for range 4 - ways["session"] {
			s.drivers.Go(func() { s.create(rand.Text()) })
		}
		for _, tool := range []string{"task", "call"} {
			for range 4 - ways[tool] {
				s.drivers.Go(func() { s.call(tool, rand.Text()) })
			}
		}
	}
	return s, func() {
		if err := killProcess(s.process); err != nil {
			k.Fatal(err)
		}
		s.client.Wait()
		cancel()
		s.drivers.Wait()
		s.client.Close()
		s.web.CloseIdleConnections()
		if text := s.stderr.String(); text != "" {
			k.Errorf("log of the server: %s", text)
		}
	}
}

// create calls a tool as a task in the session.
func (s *killedServer) create(key string) {
	handle, err := s.client.StartTool(s.ctx, "task", map[string]string{"Key": key})
	if err == nil {
		s.created(&killedTask{id: handle.ID(), key: key, way: "session"})
	} else {
		s.fault(err)
	}
}

func (s *killedServer) created(created *killedTask) {
	s.mu.Lock()
	s.unfinished[created.id] = created
	s.mu.Unlock()
	s.drive(created)
}

// fault reports an error that is not due to the end of the process.
func (s *killedServer) fault(err error) {
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		s.Errorf("the server returned %v", rpc)
	}
}

// drive follows a task to its end. Now and then, it does so in the other era.
func (s *killedServer) drive(known *killedTask) {
	s.drivers.Go(func() {
		result, err := "", error(nil)
		if (known.way == "session") != (mathrand.IntN(4) == 0) {
			result, err = s.attach(known.id)
		} else {
			result, err = s.follow(known.id)
		}
		if err != nil {
			s.fault(err)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		known.result = result
		delete(s.unfinished, known.id)
		s.finished[known.id] = known
	})
}

// attach waits for the end of a task in the session, and returns the text of its result.
func (s *killedServer) attach(id string) (string, error) {
	r, err := s.client.AttachTool(id).Result(s.ctx)
	if err != nil {
		return "", err
	}
	return client.Text(r)
}

// call calls a tool in the revision without sessions, until it is a task or has a result.
func (s *killedServer) call(tool, key string) {
	params := map[string]any{"name": tool, "arguments": map[string]string{"Key": key}}
	for {
		got, err := s.send("tools/call", tool, params)
		if err != nil {
			s.fault(err)
			return
		}
		switch part(got, "resultType") {
		case `"task"`:
			s.created(&killedTask{id: unquote(part(got, "taskId")), key: key, way: tool})
			return
		case `"input_required"`:
			responses, _ := s.respond(got)
			params["inputResponses"], params["requestState"] = responses, json.RawMessage(part(got, "requestState"))
		default:
			return
		}
	}
}

// respond returns the responses to the input requests of a call or a task, by name and by message.
func (s *killedServer) respond(got string) (responses map[string]any, values map[string]string) {
	var requests map[string]struct{ Params struct{ Message string } }
	if err := json.Unmarshal([]byte(part(got, "inputRequests")), &requests); err != nil {
		s.Errorf("%s: %v", got, err)
	}
	responses, values = map[string]any{}, map[string]string{}
	for name, q := range requests {
		value := s.answer(q.Params.Message)
		values[q.Params.Message] = value
		responses[name] = map[string]any{"action": "accept", "content": map[string]string{"name": value}}
	}
	return responses, values
}

// follow polls a task, responds to its input requests, and returns the text of its result.
func (s *killedServer) follow(id string) (string, error) {
	for {
		got, err := s.send("tasks/get", id, map[string]any{"taskId": id})
		if err != nil {
			return "", err
		}
		switch part(got, "status") {
		case `"completed"`:
			return outcome(part(got, "result"), nil), nil
		case `"input_required"`:
			responses, values := s.respond(got)
			if _, err := s.send("tasks/update", id, map[string]any{"taskId": id, "inputResponses": responses}); err != nil {
				return "", err
			}
			s.mu.Lock()
			for message, value := range values {
				s.confirmed[message] = value
			}
			s.mu.Unlock()
		case `"working"`:
			time.Sleep(time.Millisecond)
		default:
			return "", fmt.Errorf("unexpected task %s", got)
		}
	}
}

// send sends a modern request and returns its result.
func (s *killedServer) send(method, name string, params map[string]any) (string, error) {
	params["_meta"] = json.RawMessage(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
		"io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(s.ctx, "POST", "http://localhost/", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	for name, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name, userHeader: "ada",
	} {
		r.Header.Set(name, value)
	}
	response, err := s.web.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	got := string(text)
	if _, data, ok := strings.Cut(got, "data: "); ok && response.Header.Get("Content-Type") == "text/event-stream" {
		got, _, _ = strings.Cut(data, "\n") // the only event
	}
	if response.StatusCode != http.StatusOK || part(got, "result") == "" {
		s.Errorf("%s: got status %d: %s", method, response.StatusCode, got)
		return "", errors.New("no result")
	}
	return part(got, "result"), nil
}

// Options configures [Killed].
type Options struct {
	Kills int    // number of kills; 0 means 20, or 3 with the flag -short
	Seed  uint64 // of the times of the kills; 0 means random
}

// Killed kills a server with durable tools again and again, while clients call the tools in both
// eras and respond to input requests, over standard input and output and over HTTP. The store is a
// bolt file. Each task completes with the results that its steps and input requests had when they
// were recorded. No recorded step runs again, no recorded response is asked for again, nothing that
// the server has acknowledged is lost, and a step that was killed runs again with the same
// idempotency key. TestMain of the package must call [Main].
func Killed(t *testing.T, subject Subject, o Options) {
	if o.Kills == 0 {
		if o.Kills = 20; testing.Short() {
			o.Kills = 3
		}
	}
	if o.Seed == 0 {
		o.Seed = mathrand.Uint64()
	}
	t.Logf("seed %d", o.Seed)
	random := mathrand.New(mathrand.NewPCG(o.Seed, 0))
	k := &killTest{
		T: t, subject: subject, dir: t.TempDir(), unfinished: map[string]*killedTask{}, finished: map[string]*killedTask{},
		begun: map[string][]logged{}, recorded: map[string]string{}, given: map[string]int{}, asker: map[string]string{},
		confirmed: map[string]string{}, once: map[string]string{},
	}
	for n := range o.Kills {
		_, kill := k.start(true)
		time.Sleep(time.Duration(random.IntN(100_000)) * time.Microsecond)
		kill()
		k.check()
		if t.Failed() {
			t.Fatalf("at kill %d of %d", n+1, o.Kills)
		}
	}
	s, kill := k.start(false)
	s.drivers.Wait()
	for _, done := range k.finished { // in the other era
		var got string
		var err error
		if done.way == "session" {
			got, err = s.follow(done.id)
		} else {
			got, err = s.attach(done.id)
		}
		if err != nil || got != done.result {
			t.Errorf("got %q, %v, want the result %q", got, err, done.result)
		}
	}
	kill()
	k.check()
	again, askedAgain, ways := 0, 0, map[string]int{}
	for _, done := range k.finished {
		ways[done.way]++
		var values []string
		for n, o := range operations {
			operation := (&logged{Key: done.key, N: n}).operation()
			values = append(values, k.recorded[operation])
			if o.kind == 'i' {
				askedAgain += k.given[operation] - 1
			} else {
				again += len(k.begun[operation]) - 1
			}
		}
		if want := strings.Join(values, " "); done.result != want {
			t.Errorf("task %s has the result %q, want %q", done.id, done.result, want)
		}
	}
	if len(k.unfinished) > 0 {
		t.Errorf("%d tasks have not ended", len(k.unfinished))
	}
	t.Logf("%d kills, %d runs of tasks in these ways: %v; %d steps and sleeps that were killed began again, %d input requests whose response was lost were asked again",
		o.Kills, k.runs, ways, again, askedAgain)
}

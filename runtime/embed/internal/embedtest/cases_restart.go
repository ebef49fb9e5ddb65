package embedtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// restart closes the peers, shuts down the server, and starts another one with the same store.
func (c *check) restart(peers ...*peer) {
	c.Helper()
	for _, p := range peers {
		p.end()
	}
	if err := c.stop(); err != nil {
		c.Errorf("stop the server: %v", err)
	}
	if err := c.server.start(); err != nil {
		c.Fatal(err)
	}
}

// count returns how often a list contains a text.
func count(list []string, text string) (n int) {
	for _, x := range list {
		if x == text {
			n++
		}
	}
	return n
}

// Restarts of the server.
var restartCases = []testCase{
	{name: "recovery runs the handler again", run: func(c *check) {
		p := c.peer()
		id := p.task("gate-durable", keyed("k"))
		p.events("k", 1)
		c.restart(p)
		p = c.peer()
		for count(p.events("k", 2), "run") < 2 {
			p.pause()
		}
		c.equal("status", p.status(id), "working")
		p.release("k")
		c.equal("outcome", p.outcome(id), "passed")
	}},
	{name: "results survive a restart", run: func(c *check) {
		p := c.peer()
		id := p.task("greet", `{"name":"Ada"}`)
		p.outcome(id)
		c.restart(p)
		c.equal("outcome", c.peer().outcome(id), "Hello, Ada")
	}},
	{name: "steps are not repeated", run: func(c *check) {
		p := c.peer()
		id := p.task("steps", keyed("k"))
		for !slices.Contains(p.events("k", 2), "waits") {
			p.pause()
		}
		c.restart(p)
		p = c.peer()
		p.release("k")
		c.equal("outcome", p.outcome(id), "first second")
		events := p.events("k", 4)
		c.equal("first step", count(events, "step first"), 1)
		c.equal("second step", count(events, "step second"), 1)
		if count(events, "run") < 2 {
			c.Errorf("events %v, want two runs", events)
		}
	}},
	{name: "answered input is not asked again", run: func(c *check) {
		p := c.peer()
		id := p.task("steps-ask", keyed("k"))
		if c.era == "session" {
			p.start("tasks/result", ofTask(id))
		} else {
			p.awaitInput(id)
			p.update(id, p.responses(part(p.get(id), "inputRequests")))
		}
		for !slices.Contains(p.events("k", 2), "answered") {
			p.pause()
		}
		c.restart(p)
		p = c.peer()
		p.serve = func(method, params string) (string, *jsonrpc.Error) {
			c.Errorf("asked again: %s %s", method, params)
			return accept("again"), nil
		}
		p.release("k")
		c.equal("outcome", p.outcome(id), "accept k")
	}},
	{name: "open input is asked again after a restart", run: func(c *check) {
		p := c.peer()
		id := p.task("steps-ask", keyed("k"))
		p.awaitInput(id)
		c.restart(p)
		p = c.peer()
		p.release("k")
		c.equal("outcome", p.outcome(id), "accept k")
		c.equal("first step", count(p.events("k", 3), "step first"), 1)
	}},
	{name: "sleep survives a restart", setup: setup{ParkAfter: time.Millisecond}, run: func(c *check) {
		p := c.peer()
		until := time.Now().Add(2 * time.Second)
		text, err := json.Marshal(arguments{Key: "k", Until: until})
		if err != nil {
			c.Fatal(err)
		}
		id := p.task("nap", string(text))
		for !slices.Contains(p.events("k", 3), "returned") { // parked, and thus recorded
			p.pause()
		}
		c.restart(p)
		p = c.peer()
		c.equal("outcome", p.outcome(id), "awake")
		if time.Now().Before(until) {
			c.Errorf("the sleep ended too early")
		}
		c.equal("sleeps", count(p.events("k", 4), "sleep"), 1)
	}},
	{name: "input request has a deadline", run: patient},
	{name: "parked input request has a deadline", setup: setup{ParkAfter: time.Millisecond}, run: patient},
	{name: "answer comes first", setup: setup{ParkAfter: time.Millisecond}, run: func(c *check) {
		choose(c, 0, "answer accept k", func(p *peer, id string) {
			if c.era == "session" {
				p.start("tasks/result", ofTask(id))
				return
			}
			p.update(id, p.responses(part(p.get(id), "inputRequests")))
		})
	}},
	{name: "signal comes first", setup: setup{ParkAfter: time.Millisecond}, run: func(c *check) {
		choose(c, 0, "signal of paid", func(p *peer, id string) { p.signal(id, "paid") })
	}},
	{name: "signal comes first without a park", run: func(c *check) {
		choose(c, 0, "signal of paid", func(p *peer, id string) { p.signal(id, "paid") })
	}},
	{name: "time comes first", setup: setup{ParkAfter: time.Millisecond}, run: func(c *check) {
		choose(c, 300*time.Millisecond, "late", func(*peer, string) {})
	}},
	{name: "wait for the first event is cancelled", setup: setup{ParkAfter: time.Millisecond}, run: func(c *check) {
		p := c.peer()
		id := p.task("choose", fmt.Sprintf(`{"key":"k","count":%d}`, never.Milliseconds()))
		p.awaitInput(id)
		c.restart(p)
		p = c.peer()
		p.awaitInput(id)
		p.cancel(id)
		c.equal("status", p.status(id), "cancelled")
		c.equal("open requests", part(p.get(id), "inputRequests"), "")
		c.equal("code", p.code(id), task.CodeCancelled)
		if got := p.plain("signal", fmt.Sprintf(`{"task":%q,"name":"paid"}`, id)); got == "sent" {
			c.Errorf("a cancelled task has received a signal")
		}
		c.restart(p)
		c.equal("events after the cancellation", count(c.peer().events("k", 1), "chosen signal of paid"), 0)
	}},
	{name: "withdrawn input request", era: "session", run: func(c *check) {
		p := c.peer()
		answered := make(chan struct{})
		p.serve = func(_, params string) (string, *jsonrpc.Error) {
			<-answered // after the withdrawal
			return accept(unquote(part(params, "message"))), nil
		}
		answer := sync.OnceFunc(func() { close(answered) })
		defer answer()
		id := p.task("choose", fmt.Sprintf(`{"key":"k","count":%d}`, never.Milliseconds()))
		_, result := p.start("tasks/result", ofTask(id))
		p.await("the form", func(m jsonrpc.Message) bool { return m.Method == "elicitation/create" })
		p.signal(id, "paid")
		p.await("the withdrawal", func(m jsonrpc.Message) bool { return m.Method == "notifications/cancelled" })
		answer()
		c.equal("status", p.status(id), "working")
		p.release("k")
		p.signal(id, "end")
		c.equal("outcome", outcome(p.receive(result)), "signal of paid, of end")
	}},
	{name: "attempts and branches survive restarts", run: func(c *check) { tripEnds(c, "trip", "") }},
	{name: "failed task is undone after restarts", run: func(c *check) { tripEnds(c, "trip", "nothing") }},
	{name: "parked task is undone after restarts", setup: setup{ParkAfter: time.Millisecond}, run: func(c *check) { tripEnds(c, "trip", "nothing") }},
	{name: "plain call becomes a task that is undone", era: "modern", run: func(c *check) { tripEnds(c, "trip-later", "nothing") }},
	{name: "cancelled task is undone after a restart", transports: "memory", run: func(c *check) {
		p := c.peer()
		id := p.task("trip", keyed("k"))
		awaitTrip(p, id)
		c.restart(p)
		p = c.peer()
		p.cancel(id)
		c.equal("status", p.status(id), "cancelled")
		checkTrip(c, p, true)
	}},
	{name: "parked task takes no goroutine", transports: "memory http", setup: setup{ParkAfter: time.Millisecond}, run: func(c *check) {
		p := c.peer()
		id := p.task("steps-ask", keyed("k"))
		for m := c.endpoint.Manager(); m.Stats().Parked == 0 || m.Stats().Running > 0; {
			p.pause()
		}
		c.equal("events", p.events("k", 3)[2], "returned")
		p.release("k")
		c.equal("outcome", p.outcome(id), "accept k")
		c.equal("first step", count(p.events("k", 3), "step first"), 1)
	}},
	{name: "parked task continues after a restart", setup: setup{ParkAfter: time.Millisecond}, run: func(c *check) {
		p := c.peer()
		id := p.task("steps-ask", keyed("k"))
		p.events("k", 3)
		c.restart(p)
		p = c.peer()
		p.release("k")
		c.equal("outcome", p.outcome(id), "accept k")
		c.equal("first step", count(p.events("k", 3), "step first"), 1)
	}},
	{name: "task waits for its version", setup: setup{Version: "1"}, run: func(c *check) {
		p := c.peer()
		id := p.task("versioned", keyed("k"))
		p.events("k", 1)
		c.setup.Version = "2"
		c.restart(p)
		p = c.peer()
		c.equal("status message", unquote(part(p.get(id), "statusMessage")), `waits for a process that has version "1" of the tool "versioned"`)
		c.equal("runs", count(p.events("k", 1), "run"), 1)
		c.setup.Version = "1"
		c.restart(p)
		p = c.peer()
		p.release("k")
		c.equal("outcome", p.outcome(id), "passed")
	}},
	{name: "task waits for its tool", run: func(c *check) {
		p := c.peer()
		id := p.task("gate-durable", keyed("k"))
		p.events("k", 1)
		c.setup.Without = "gate-durable"
		c.restart(p)
		p = c.peer()
		for part(p.get(id), "statusMessage") == "" {
			p.pause()
		}
		c.equal("status", p.status(id), "working")
		c.equal("status message", unquote(part(p.get(id), "statusMessage")), `waits for a process that has the tool "gate-durable"`)
		c.setup.Without = ""
		c.restart(p)
		p = c.peer()
		for part(p.get(id), "statusMessage") != "" {
			p.pause()
		}
		p.release("k")
		c.equal("outcome", p.outcome(id), "passed")
	}},
	{name: "accepted version continues", setup: setup{Version: "1"}, run: func(c *check) {
		p := c.peer()
		id := p.task("versioned", keyed("k"))
		p.events("k", 1)
		c.setup.Version, c.setup.Accepts = "2", []string{"1"}
		c.restart(p)
		p = c.peer()
		p.release("k")
		c.equal("outcome", p.outcome(id), "passed")
	}},
	{name: "restart limit", transports: "stdio", setup: setup{MaxReruns: 1}, run: func(c *check) {
		p := c.peer()
		id := p.task("gate-durable", keyed("k"))
		for runs := 1; runs <= 2; runs++ {
			p.events("k", runs)
			if err := c.kill(); err != nil {
				c.Fatal(err)
			}
			p.close()
			if err := c.server.start(); err != nil {
				c.Fatal(err)
			}
			p = c.peer()
		}
		c.equal("status", p.status(id), "failed")
		c.equal("runs", len(p.events("k", 2)), 2)
	}},
	{name: "non-durable task fails after a restart", run: func(c *check) {
		p := c.peer()
		id := p.task("gate", keyed("k"))
		p.events("k", 1)
		c.restart(p)
		p = c.peer()
		c.equal("status", p.status(id), "failed")
		c.equal("runs", count(p.events("k", 1), "run"), 1)
	}},
}

// patient lets the deadline of an input request pass. What the handler does then is no second
// operation at the same time, and later runs do the same.
func patient(c *check) {
	p := c.peer()
	id := p.task("patient", `{"key":"k","count":100}`)
	for !slices.Contains(p.events("k", 1), "got instead") {
		p.pause()
	}
	c.equal("status", p.status(id), "working")
	c.restart(p)
	p = c.peer()
	p.release("k")
	c.equal("outcome", p.outcome(id), "instead")
	c.equal("steps", count(p.events("k", 1), "step instead"), 1)
}

// choose waits for the first of several events, with restarts before and after it. An input request
// that was not answered is withdrawn, and none is sent twice to a client that has answered.
func choose(c *check, late time.Duration, want string, happen func(p *peer, id string)) {
	c.Helper()
	if late == 0 {
		late = never
	}
	p := c.peer()
	id := p.task("choose", fmt.Sprintf(`{"key":"k","count":%d}`, late.Milliseconds()))
	if late == never {
		p.awaitInput(id)
	}
	for c.setup.ParkAfter > 0 && late == never && !slices.Contains(p.events("k", 1), "returned") {
		p.pause()
	}
	c.restart(p)
	p = c.peer()
	p.status(id) // starts the tasks
	happen(p, id)
	for !slices.Contains(p.events("k", 1), "chosen "+want) {
		p.pause()
	}
	c.equal("status", p.status(id), "working")
	c.restart(p)
	p = c.peer()
	p.serve = func(method, _ string) (string, *jsonrpc.Error) {
		c.Errorf("received %s after the choice", method)
		return accept("again"), nil
	}
	p.release("k")
	p.status(id)
	p.signal(id, "end")
	c.equal("outcome", p.outcome(id), want+", of end")
	for _, e := range p.events("k", 1) {
		if strings.HasPrefix(e, "chosen ") && e != "chosen "+want {
			c.Errorf("%s, then %s", want, e)
		}
	}
}

// awaitTrip answers the input requests of a trip, and returns when it waits for its release.
func awaitTrip(p *peer, id string) {
	p.c.Helper()
	if p.c.era == "session" {
		p.start("tasks/result", ofTask(id))
	}
	for !slices.Contains(p.events("k", 1), "waits") {
		if p.c.era != "session" {
			if open := part(p.get(id), "inputRequests"); open != "" {
				p.update(id, p.responses(open))
			}
		}
		p.pause()
	}
}

// tripEnds runs a trip with restarts while it waits for input and for its release. It fails if name
// is not empty.
func tripEnds(c *check, tool, name string) {
	c.Helper()
	p := c.peer()
	id := p.task(tool, fmt.Sprintf(`{"key":"k","name":%q}`, name))
	p.awaitInput(id)
	c.restart(p)
	p = c.peer()
	awaitTrip(p, id)
	c.restart(p)
	p = c.peer()
	p.release("k")
	want := "booked "
	if name != "" {
		want = "failure: booked " + name
	}
	c.equal("outcome", p.outcome(id), want)
	checkTrip(c, p, name != "")
}

// checkTrip compares the effects of a trip with those that it must have had.
func checkTrip(c *check, p *peer, undone bool) {
	c.Helper()
	want := []string{"book insurance", "book train", "book hotel"}
	if undone {
		want = append(want, "undo insurance", "undo hotel", "undo train")
	}
	var events []string
	for ; ; p.pause() {
		events = slices.DeleteFunc(p.events("k", 1), func(e string) bool { return !strings.Contains(e, "book ") && !strings.Contains(e, "undo ") })
		if len(events) >= len(want) {
			break
		}
	}
	if undone {
		c.equal("last event", events[len(events)-1], "undo insurance")
	}
	slices.Sort(want)
	c.equal("effects", slices.Sorted(slices.Values(events)), want)
}

package embedtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
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

package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/client"
)

// The operators' page of a front end shows what a worker in another process runs, with its journal
// and its history, and that the worker drains.
func TestOperatorsPage(t *testing.T) {
	url, stop, err := startNATS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	worker := exec.Command(os.Args[0], "-nats", url, "-name", "worker", "-lease", "3s", "-drain", "1m")
	worker.Env = append(os.Environ(), "FLEET_WORKER=1")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer worker.Wait()
	defer worker.Process.Kill()

	nc, err := connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	front := &options{name: "front end", tools: "none", lease: 3 * time.Second}
	s, store, err := front.start(t.Context(), nc)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	page := front.operate(s, store)
	tag := regexp.MustCompile(`<[^>]*>`)
	// shows waits until a view has a row that matches a pattern, without the markup.
	shows := func(view, pattern string) {
		t.Helper()
		row := regexp.MustCompile(`(?m)^ *` + pattern)
		for text := ""; ; time.Sleep(20 * time.Millisecond) {
			if t.Context().Err() != nil {
				t.Fatalf("no row %q:\n%s", pattern, text)
			}
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/"+view, nil))
			if text = tag.ReplaceAllString(w.Body.String(), " "); row.MatchString(text) {
				return
			}
		}
	}
	shows("", `worker +alive +all`)

	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	serving, end := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { // ends with end
		defer close(served)
		if err := front.serve(serving, s, listener, nc); err != nil {
			t.Error(err)
		}
	}()
	defer func() { end(); <-served }()
	health := func() int {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/health", nil))
		return w.Code
	}
	if code := health(); code != http.StatusOK {
		t.Errorf("health is %d", code)
	}
	c, err := client.Dial(t.Context(), "http://"+listener.Addr().String()+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	packed := make(chan error, 1)
	go func() { // ends with the task
		_, err := c.CallTool(t.Context(), "pack", order{Items: strings.Split(strings.Repeat("secret ", 1000), " ")})
		packed <- err
	}()
	shows("", `worker +alive +all .*of 3s +1 +0 +0 +1 `) // after the next renewal of the lease
	var id string
	for r, err := range store.Scan(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		id = r.ID
	}
	shows("", id+` +working .*worker +tools/call +pack`)
	view := "?task=" + id
	shows(view, `item 1 +1 +a result`)
	shows(view, `[-0-9]{10} [0-9:.]+ +created +working +front end`)
	shows(view, `[-0-9]{10} [0-9:.]+ +recovered +working +worker`)
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/"+view, nil))
	if strings.Contains(w.Body.String(), "secret") {
		t.Error("the page shows arguments or results")
	}
	if err := worker.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	shows("", `worker +draining `)
	w = httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/?cancel="+id, nil))
	shows(view, `Status +cancelled`)
	if err := <-packed; err == nil {
		t.Error("the call of a cancelled task has a result")
	}
	c.Close()
	end()
	<-served
	if code := health(); code != http.StatusServiceUnavailable {
		t.Errorf("health is %d after the shutdown", code)
	}
}

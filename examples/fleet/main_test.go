package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// TestMain runs the program in place of the tests if the demo has started it as a worker.
func TestMain(m *testing.M) {
	if os.Getenv("FLEET_WORKER") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestDemo(t *testing.T) {
	orders := 100
	if testing.Short() {
		orders = 20
	}
	var out strings.Builder
	drawing, err := demo(t.Context(), &out, orders)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Log(out.String())
	if n := strings.Count(string(drawing), "<rect"); n < orders*items {
		t.Errorf("the drawing has %d bars for %d items", n, orders*items)
	}
}

// The tasks of a bolt file are in the store of the fleet after an import.
func TestImport(t *testing.T) {
	url, stop, err := startNATS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	file := filepath.Join(t.TempDir(), "tasks.db")
	old, err := bolt.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Create(t.Context(), task.Record{ID: "x", Owner: "alice", Status: mcp.TaskStatusCompleted, Created: time.Now(), TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	missing := &options{nats: url, file: filepath.Join(t.TempDir(), "missing.db")}
	if err := missing.load(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("import of a missing file: %v", err)
	}
	o := &options{nats: url, file: file, tools: "all"}
	if err := o.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	nc, err := connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	s, store, err := o.start(t.Context(), nc)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	defer s.Close()
	if r, err := store.Get(t.Context(), "x"); err != nil || r.Owner != "alice" {
		t.Errorf("got %+v, %v", r, err)
	}
}

// Orders that must stay cold are packed by a process with that label, wherever they arrive.
func TestColdOrder(t *testing.T) {
	url, stop, err := startNATS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	nc, err := connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	processes := []*options{{name: "front", tools: "all", lease: lease}, {name: "cold store", tools: "all", labels: "cold,big", lease: lease}}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	ctx, end := context.WithCancel(t.Context())
	defer func() { end(); <-served }()
	for i, o := range processes {
		s, store, err := o.start(t.Context(), nc)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		defer s.Close()
		if i == 0 {
			go func() { served <- o.serve(ctx, s, listener, nc) }() // ends with end
		}
	}
	c, err := client.Dial(t.Context(), "http://"+listener.Addr().String()+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	result, err := c.CallTool(t.Context(), "pack", order{Items: []string{"ice"}, Cold: true})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := client.Output[parcel](result); err != nil || p.Packed[0].By != "cold store" {
		t.Errorf("got %+v, %v", p, err)
	}
}

// The snippets of docs/tutorial/5-fleet.md and docs/howto/fleet.md are parts of this program.
func TestPages(t *testing.T) {
	var pages []byte
	for _, page := range []string{"tutorial/5-fleet.md", "howto/fleet.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, text...)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(pages), -1)
	if len(snippets) < 2 {
		t.Errorf("%d snippets", len(snippets))
	}
	for _, s := range snippets {
		indented := regexp.MustCompile("(?m)^(.)").ReplaceAllString(s[1], "\t$1")
		if !strings.Contains(string(program), indented) {
			t.Errorf("main.go does not have\n%s", indented)
		}
	}
}

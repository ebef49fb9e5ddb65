package main

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/internal/must"
	mcpserver "github.com/mcpwire/mcpwire/runtime/server"
)

// The test binary is also the command of the servers: with the argument serve, it is one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve" {
		if err := newServer().ServeStdio(context.Background()); err != nil {
			log.Fatal(err)
		}
		return
	}
	os.Exit(m.Run())
}

type no struct{}

func newServer() *mcpserver.Server {
	s := mcpserver.New("test", "1", nil)
	mcpserver.AddTool(s, "pid", "Returns the process id.", func(context.Context, *mcpserver.Call, no) (string, error) {
		return fmt.Sprint(os.Getpid()), nil
	})
	mcpserver.AddTool(s, "exit", "Ends the process.", func(context.Context, *mcpserver.Call, no) (string, error) {
		os.Exit(1)
		return "", nil
	})
	return s
}

func TestHostKeepsTenServers(t *testing.T) {
	web := newServer()
	defer web.Close()
	httpServer := httptest.NewServer(must.Get(web.Handler(nil)))
	defer httpServer.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]server{}
	for i := range 5 {
		servers[fmt.Sprint("child", i)] = server{Command: []string{self, "serve"}}
		servers[fmt.Sprint("web", i)] = server{URL: httpServer.URL}
	}
	ctx, cancel := context.WithCancel(t.Context())
	h := start(ctx, servers, time.Millisecond)
	defer h.done.Wait()
	defer cancel()
	h.ready.Wait()
	if names := h.tools(ctx); len(names) != 20 || names[0] != "child0/exit" || names[19] != "web4/pid" {
		t.Errorf("the tools are %v", names)
	}
	if got, err := h.call(ctx, "web2/pid", nil); err != nil || got != fmt.Sprint(os.Getpid()) {
		t.Errorf("got %q, %v", got, err)
	}
	before, err := h.call(ctx, "child3/pid", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.call(ctx, "child3/exit", nil); err == nil {
		t.Error("a call survives the end of its server")
	}
	after := ""
	for after == "" { // until the host has connected again
		after, _ = h.call(ctx, "child3/pid", nil)
		time.Sleep(time.Millisecond)
	}
	if after == before {
		t.Errorf("the server is still process %s", after)
	}
	var out strings.Builder
	if err := h.serve(ctx, strings.NewReader("child3/pid {}\nnone/long "+strings.Repeat(" ", 1<<17)+"{}\n\nnone/pid"), &out); err != nil {
		t.Error(err)
	}
	if want := after + strings.Repeat("\nerror: server \"none\" is not connected", 2) + "\n"; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
}

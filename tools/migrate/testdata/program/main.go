package main

import (
	"log"

	"github.com/mcpwire/mcpwire/runtime/server"
)

// page has fields of the same names.
type page struct{ PageSize, CallRate int }

type logging = server.Middleware[string]

func main() {
	store, err := server.Open("x.db")
	if err != nil {
		log.Fatal(err)
	}
	cfg := server.Config{PageSize: 9, LogRate: -1, Instructions: "Be kind.", CallRate: 2}
	cfg.PageSize *= page{PageSize: 2}.PageSize
	cfg.TaskStore = store
	s := server.New("a", &server.Config{
		// It has a store.
		TaskStore: store, // of tasks
		CallRate:  3,     // per second
		// Few are needed.
		LogRate: 1,
	})
	for _, c := range []*server.Config{{CallRate: 1, Middleware: func(*server.Server) func() {
		return func() { cfg.CallRate++ }
	}}} {
		server.New("b", c)
	}
	var o server.ListenOptions
	o.CallRate = cfg.CallRate
	server.AddTool(s, "none", func(string) {})
	tool, err := server.AddTool(s, "both", func(int) {})
	if err != nil {
		log.Fatal(err, tool)
	}
	if _, err := server.AddTool(s, "error", func(int) {}); err != nil {
		log.Fatal(err)
	}
	if tool, err := server.AddTool(s, "by hand", func(int) {}); err != nil {
		log.Fatal(err, tool)
	}
	must(server.AddTool(s, "checked", func(int) {}))
	tool = must(server.AddTool(s, "kept", func(int) {}))
	check(server.AddTool(s, "no result", func(int) {}))
	log.Print(describe(server.AddTool(s, "text by hand", func(int) {})), tool)
}

func must[T any](v T, err error) T {
	check(v, err)
	return v
}

func check(_ any, err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func describe(tool *server.Tool, err error) string { return "" }

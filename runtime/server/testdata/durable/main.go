package main

import (
	"context"
	"log"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

type film struct{ Title string }

func render(_ context.Context, _ *server.Call, f film) (string, error) { return f.Title + ".mp4", nil }

func main() {
	s := server.New("studio", "1", &server.Options{Tasks: task.Options{Store: bolt.File("tasks.db")}})
	server.AddTool(s, "render", "Renders a film.", render, server.Durable())
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}

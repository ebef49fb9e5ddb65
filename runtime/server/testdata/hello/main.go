package main

import (
	"context"
	"log"

	"github.com/mcpwire/mcpwire/runtime/server"
)

type person struct{ Name string }

func greet(_ context.Context, _ *server.Call, p person) (string, error) { return "Hi, " + p.Name, nil }

func main() {
	s := server.New("hello", "1.0.0", nil)
	server.AddTool(s, "greet", "Greets a person by name.", greet)
	if err := s.ServeStdio(context.Background()); err != nil {
		log.Fatal(err)
	}
}

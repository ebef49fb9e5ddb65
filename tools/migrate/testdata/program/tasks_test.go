package main

import (
	"testing"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
)

func TestTasks(t *testing.T) {
	server.New("a", &server.Config{
		TaskStore: nil, Tasks: task.Config{PageSize: 1},
	})
}

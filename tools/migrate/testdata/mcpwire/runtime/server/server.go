// Package server has declarations of an earlier version.
package server

import "github.com/mcpwire/mcpwire/runtime/task"

type Server struct{}

type Config struct {
	Instructions string
	PageSize     int
	CallRate     float64
	LogRate      float64
	TaskStore    task.Store
	Tasks        task.Config
	Middleware   func(*Server) func()
}

type Middleware[T any] func(T) T

type ListenOptions struct{ Config }

type Tool struct{}

func New(name string, cfg *Config) *Server { return new(Server) }

func AddTool[T any](s *Server, name string, f func(T)) (*Tool, error) { return new(Tool), nil }

func Open(path string) (task.Store, error) { return nil, nil }

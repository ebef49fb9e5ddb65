package session

import "github.com/mcpwire/mcpwire/runtime/internal/engine"

const (
	DefaultTimeout       = defaultTimeout
	DefaultInputTimeout  = engine.DefaultInputTimeout
	DefaultGrace         = engine.DefaultGrace
	DefaultMaxInitialize = engine.DefaultMaxInitialize
)

package session

import (
	"encoding/json"

	"github.com/mcpwire/mcpwire/runtime/internal/engine"
)

const (
	DefaultTimeout       = defaultTimeout
	DefaultInputTimeout  = engine.DefaultInputTimeout
	DefaultGrace         = engine.DefaultGrace
	DefaultMaxInitialize = engine.DefaultMaxInitialize
)

// OnLate and Track are options for tests.
func OnLate(f func(result json.RawMessage, err error)) Option { return sessionInternals{}.OnLate(f) }
func Track(t *tracker) Option                                 { return sessionInternals{}.Track(t) }

type (
	Reporter = reporter
	Tracker  = tracker
)

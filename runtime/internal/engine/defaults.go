package engine

import "time"

// Defaults of sessions that other packages rely on.
const (
	DefaultInputTimeout  = time.Hour
	DefaultGrace         = time.Second
	DefaultMaxInitialize = 64 << 10
)

package boundary

import "time"

// Defaults of a server's configuration that a proxy needs, too: it sets limits of its own by them.
const (
	DefaultPageSize         = 100
	DefaultInputTimeout     = 10 * time.Minute
	DefaultMaxRounds        = 100
	DefaultMaxSubscriptions = 10000
)

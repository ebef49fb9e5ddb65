package task

// Defaults of a [Config].
const (
	DefaultProgressInterval = defaultProgressInterval
	DefaultMaxBytes         = defaultMaxBytes
	DefaultMaxReruns        = defaultMaxReruns
	DefaultParkAfter        = defaultParkAfter
)

package task

// Defaults of an [Options].
const (
	DefaultProgressInterval = defaultProgressInterval
	DefaultMaxBytes         = defaultMaxBytes
	DefaultMaxReruns        = defaultMaxReruns
	DefaultParkAfter        = defaultParkAfter
)

// Rules of the moves of a task, and of its requests.
var (
	Legal    = legal
	ErrToken = errToken
	MaxToken = maxToken
	Moves    = func() (list [][3]string) {
		for _, m := range moves {
			list = append(list, [3]string{string(m.from), string(m.to), m.why})
		}
		return list
	}()
)

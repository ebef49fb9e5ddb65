package stdio

import "time"

const DefaultExitTimeout = defaultExitTimeout

// SetTimeouts says how long Close waits for the process to end, and how long after it was asked to
// terminate.
func (p *Process) SetTimeouts(exit, term time.Duration) { p.exitTimeout, p.termTimeout = exit, term }

package stdio

import "time"

const DefaultExitTimeout = defaultExitTimeout

// SetTimeouts sets how long Close waits for the process to exit, and again after asking it to
// terminate.
func (p *Process) SetTimeouts(exit, term time.Duration) { p.exitTimeout, p.termTimeout = exit, term }

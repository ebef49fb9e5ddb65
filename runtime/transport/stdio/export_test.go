package stdio

import "time"

const DefaultExitTimeout = defaultExitTimeout

// SetTimeouts sets how long Close waits for the process to exit, and again after asking it to
// terminate.
func SetTimeouts(p Process, exit, term time.Duration) {
	p.(*process).exitTimeout, p.(*process).termTimeout = exit, term
}

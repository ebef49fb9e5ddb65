package natstest

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// envClock names the file with the clock of a process.
const envClock = "NATSTEST_CLOCK"

// Clock is the wall clock of child processes. Their monotonic clock is not affected, as when an
// operator sets the clock of a machine. Its methods may be called concurrently.
type Clock struct {
	t    testing.TB
	file *os.File

	mu     sync.Mutex
	offset time.Duration
}

// CanSetClock reports whether [NewClock] and [Cluster.StepClock] work on this system: on Linux on
// amd64.
func CanSetClock() bool { return canSetClock() }

// NewClock returns a clock that is right. It applies to the child processes of the test that have
// [Clock.Env] in their environment and import this package. It skips the test on systems other than
// Linux on amd64.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	if !canSetClock() {
		t.Skip("natstest: the clock of a process can be set only on Linux on amd64")
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "clock"))
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(func() { file.Close() })
	c := &Clock{t: t, file: file}
	c.Step(0)
	return c
}

// Env returns the variable that gives a child process the clock, as NAME=VALUE.
func (c *Clock) Env() string { return envClock + "=" + c.file.Name() }

// Step moves the clock by d, which is rounded to seconds.
func (c *Clock) Step(d time.Duration) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d.Round(time.Second)
	// The processes map the file into their memory.
	if _, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(c.offset/time.Second)), 0); err != nil {
		c.t.Fatalf("natstest: %v", err)
	}
}

// StepClock moves the wall clock of the process of a node by d; see [Clock]. The node keeps the
// clock when it restarts.
func (c *Cluster) StepClock(i int, d time.Duration) {
	c.t.Helper()
	clock := c.nodes[i].clock
	if clock == nil {
		c.t.Skip("natstest: the clock of a node can be set only if it is a process, on Linux on amd64")
	}
	clock.Step(d)
}

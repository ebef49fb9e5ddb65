//go:build unix

package natstest

import (
	"os"
	"syscall"
)

// pauseProcess stops a process. On Linux, it returns once all threads of the process have stopped,
// or the process has ended.
func pauseProcess(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return waitUntilStopped(p.Pid)
}

func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

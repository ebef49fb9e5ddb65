//go:build unix

package natstest

import (
	"os"
	"os/exec"
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

// EndWithTest makes a child process that is paused end with the test, even if the test is killed. A
// child that runs ends by itself when its standard input does. Call it before the process starts.
func EndWithTest(cmd *exec.Cmd) {
	// When the parent of a process group ends and a process of the group is stopped, the kernel sends
	// SIGHUP and SIGCONT to the group.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

func resumeProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

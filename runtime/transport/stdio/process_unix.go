//go:build unix

package stdio

import (
	"os"
	"os/exec"
	"syscall"
)

// terminate asks a process to terminate. If it has its own group, the whole group is asked, because
// a wrapper such as a shell does not forward the signal.
func terminate(p *os.Process, apart bool) error {
	if apart {
		return syscall.Kill(-p.Pid, syscall.SIGTERM)
	}
	return p.Signal(syscall.SIGTERM)
}

// kill kills a process and, if it has its own group, the whole group.
func kill(p *os.Process, apart bool) {
	if apart {
		syscall.Kill(-p.Pid, syscall.SIGKILL)
	}
	p.Kill()
}

// setApart configures cmd to run in its own process group.
func setApart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// inherited returns the names of the variables of DefaultEnv.
func inherited() []string {
	return []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
}

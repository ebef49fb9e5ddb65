//go:build unix

package stdio

import (
	"os"
	"os/exec"
	"syscall"
)

// terminate asks a process to end, and with it the rest of its group if it has one of its own. A
// wrapper such as a shell does not pass the signal on.
func terminate(p *os.Process, apart bool) error {
	if apart {
		return syscall.Kill(-p.Pid, syscall.SIGTERM)
	}
	return p.Signal(syscall.SIGTERM)
}

// kill kills a process, and with it the rest of its group if it has one of its own.
func kill(p *os.Process, apart bool) {
	if apart {
		syscall.Kill(-p.Pid, syscall.SIGKILL)
	}
	p.Kill()
}

// setApart gives a process that is to be started a process group of its own.
func setApart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// inherited names the variables of DefaultEnv.
func inherited() []string {
	return []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"}
}

//go:build unix

package loopback

import (
	"os/exec"
	"syscall"
)

// setApart gives a command its own process group. Ctrl-C at the terminal must not terminate a
// browser that the command has started.
func setApart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

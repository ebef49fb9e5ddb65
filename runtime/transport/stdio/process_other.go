//go:build !unix

package stdio

import (
	"errors"
	"os"
	"os/exec"
)

// terminate fails: the system has no signal that asks a process to terminate.
func terminate(_ *os.Process, _ bool) error { return errors.ErrUnsupported }

// kill kills a process.
func kill(p *os.Process, _ bool) { p.Kill() }

// setApart does nothing: the system has no process groups.
func setApart(*exec.Cmd) {}

// inherited returns the names of the variables of DefaultEnv.
func inherited() []string {
	return []string{"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
		"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE"}
}

//go:build !unix

package stdio

import (
	"errors"
	"os"
	"os/exec"
)

// terminate asks a process to end, which is not possible here.
func terminate(_ *os.Process, _ bool) error { return errors.ErrUnsupported }

// kill kills a process.
func kill(p *os.Process, _ bool) { p.Kill() }

// setApart does nothing: there are no process groups.
func setApart(*exec.Cmd) {}

// inherited names the variables of DefaultEnv.
func inherited() []string {
	return []string{"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
		"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE"}
}

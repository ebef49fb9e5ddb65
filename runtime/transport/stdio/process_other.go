//go:build !unix

package stdio

import (
	"errors"
	"os"
)

// terminate asks a process to end, which is not possible here.
func terminate(*os.Process) error { return errors.ErrUnsupported }

// inherited names the variables of DefaultEnv.
func inherited() []string {
	return []string{"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
		"PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE"}
}

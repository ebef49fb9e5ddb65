//go:build !unix

package natstest

import (
	"errors"
	"os"
	"os/exec"
)

// EndWithTest does nothing: no process can be paused.
func EndWithTest(*exec.Cmd) {}

func pauseProcess(*os.Process) error  { return errors.ErrUnsupported }
func resumeProcess(*os.Process) error { return errors.ErrUnsupported }

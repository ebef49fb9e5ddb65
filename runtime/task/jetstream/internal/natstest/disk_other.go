//go:build !linux

package natstest

import (
	"errors"
	"os/exec"
)

var errNoSpace = errors.ErrUnsupported

func isolate(*exec.Cmd) error { return errors.ErrUnsupported }

func holdDisk(dir, size string) error { return errors.ErrUnsupported }

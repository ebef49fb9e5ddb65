//go:build !unix

package loopback

import "os/exec"

// setApart does nothing: the system has no process groups.
func setApart(*exec.Cmd) {}

//go:build unix

package skills_test

import "syscall"

func makePipe(name string) error { return syscall.Mkfifo(name, 0o600) }

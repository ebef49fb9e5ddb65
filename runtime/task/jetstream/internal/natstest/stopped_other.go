//go:build unix && !linux

package natstest

// waitUntilStopped does nothing: package syscall has no call for it.
func waitUntilStopped(int) error { return nil }

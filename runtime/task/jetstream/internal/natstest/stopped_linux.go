package natstest

import (
	"syscall"
	"unsafe"
)

// waitUntilStopped waits until a child process has stopped or ended. A signal takes effect some time
// after it was sent, and threads that run may still answer then. The child can still be waited for.
func waitUntilStopped(pid int) error {
	const (
		idOfProcess = 1       // P_PID
		stopped     = 0x2     // WSTOPPED
		exited      = 0x4     // WEXITED
		noWait      = 1 << 24 // WNOWAIT
	)
	var info [128]byte // siginfo_t
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, idOfProcess, uintptr(pid), uintptr(unsafe.Pointer(&info)), stopped|exited|noWait, 0, 0)
		switch errno {
		case 0:
			return nil
		case syscall.EINTR:
		default:
			return errno
		}
	}
}

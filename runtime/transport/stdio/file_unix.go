//go:build unix

package stdio

import (
	"os"
	"syscall"
)

// interruptible returns a file for the same stream whose reads and writes end when it is closed; ok
// is false if there is none. It needs a non-blocking descriptor. Non-blocking mode is a property of
// the stream, and other processes may share the stream. It is therefore set only for pipes and
// sockets, and not if standard error is the same stream: its writers do not expect it.
func interruptible(f *os.File) (file *os.File, ok bool) {
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return nil, false
	}
	if other, err := os.Stderr.Stat(); err == nil && os.SameFile(info, other) {
		return nil, false
	}
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, false
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		syscall.Close(fd)
		return nil, false
	}
	return os.NewFile(uintptr(fd), f.Name()), true
}

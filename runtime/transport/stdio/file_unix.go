//go:build unix

package stdio

import (
	"os"
	"syscall"
)

// interruptible returns a file for the same stream whose reads and writes end when it is closed; ok is false if there
// is none. That needs a descriptor that does not block, which is a property of the stream, not of this process: it
// is set for pipes and sockets alone, and not if standard error, whose writers do not expect it, is the same stream.
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

package natstest

import (
	"io"
	"os"
	"os/exec"
	"syscall"
)

// errNoSpace is the error of writes to a full disk.
const errNoSpace = syscall.ENOSPC

// isolate gives a process namespaces of its own for users and mounts.
func isolate(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	return nil
}

// holdDisk mounts a disk, writes a byte to its standard output, and holds the disk until its
// standard input ends.
func holdDisk(dir, size string) error {
	if err := syscall.Mount("natstest", dir, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		return err
	}
	if _, err := os.Stdout.Write([]byte{1}); err != nil {
		return err
	}
	io.Copy(io.Discard, os.Stdin)
	return nil
}

package natstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// Variables of the environment of a process that holds a disk.
const (
	envDisk     = "NATSTEST_DISK"      // the folder
	envDiskSize = "NATSTEST_DISK_SIZE" // in bytes
)

// Disk is a small file system that exists until the test ends. Its methods must not be called
// concurrently.
type Disk struct {
	// Dir is the path of its root in all processes of the test.
	Dir string

	t testing.TB
}

// filler is the name of the file that takes the free space.
const filler = "filler"

// NewDisk returns an empty disk with the given size in bytes; see [TryDisk]. It skips the test if
// the system does not permit such disks.
func NewDisk(t testing.TB, size int64) *Disk {
	t.Helper()
	d, err := TryDisk(t, size)
	if err != nil {
		t.Skip(err)
	}
	return d
}

// TryDisk returns an empty disk with the given size in bytes. It is in memory, in a namespace of its
// own, so that it needs no privileges. TryDisk fails if the system does not permit such namespaces.
func TryDisk(t testing.TB, size int64) (*Disk, error) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	dir := t.TempDir()
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), envDisk+"="+dir, envDiskSize+"="+strconv.FormatInt(size, 10))
	if err := isolate(cmd); err != nil {
		return nil, fmt.Errorf("natstest: a disk of limited size needs namespaces of Linux: %w", err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("natstest: the system does not permit namespaces: %w", err)
	}
	t.Cleanup(func() {
		stdin.Close() // ends the process, and so the disk
		cmd.Wait()
	})
	// The process writes a byte once the disk is mounted.
	if n, _ := stdout.Read(make([]byte, 1)); n == 0 {
		return nil, errors.New("natstest: the system does not permit mounts in namespaces")
	}
	return &Disk{"/proc/" + strconv.Itoa(cmd.Process.Pid) + "/root" + dir, t}, nil
}

// Fill takes the free space of the disk, until [Disk.Free] returns it.
func (d *Disk) Fill() {
	d.t.Helper()
	f, err := os.OpenFile(filepath.Join(d.Dir, filler), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatalf("natstest: %v", err)
	}
	defer f.Close()
	for part := make([]byte, 1<<20); err == nil; { // its last write is cut short
		_, err = f.Write(part)
	}
	if !errors.Is(err, errNoSpace) {
		d.t.Fatalf("natstest: %v", err)
	}
}

// Free undoes [Disk.Fill].
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.Dir, filler)); err != nil {
		d.t.Fatalf("natstest: %v", err)
	}
}

// OnDisks returns a disk for each of n servers, and [StoreOn] of them.
func OnDisks(t testing.TB, n int, size int64) (disks []*Disk, configure func(*server.Options)) {
	t.Helper()
	for range n {
		disks = append(disks, NewDisk(t, size))
	}
	return disks, StoreOn(disks)
}

// StoreOn returns a function for [Run] and [RunProcesses] that makes each server store its files on
// its disk.
func StoreOn(disks []*Disk) (configure func(*server.Options)) {
	next := 0
	return func(o *server.Options) {
		o.StoreDir = filepath.Join(disks[next].Dir, "store")
		next++
	}
}

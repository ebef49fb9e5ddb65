//go:build unix

package bolt_test

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// limitFiles keeps this process from writing files beyond a size, as a full disk would.
func limitFiles(size string) error {
	n, err := strconv.ParseUint(size, 10, 32)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ) // so that writes fail instead
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n})
}

// When the disk is full writes fail, and what was acknowledged before is there.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path, limitEnv+"="+strconv.Itoa(256<<10))
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), "file too large") {
		t.Fatalf("the child ended with %v: %s", err, stderr.String())
	}
	known := map[string]*history{}
	if n := learn(t, strings.NewReader(stdout.String()), known, func() {}); n < 100 {
		t.Errorf("only %d acknowledgements", n)
	}
	check(t, path, known)
}

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
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/bolt"
)

// limitFiles limits the size of the files that this process writes, to simulate a full disk.
func limitFiles(size string) error {
	n, err := strconv.ParseUint(size, 10, 32)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ) // writes beyond the limit return an error instead
	return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: n})
}

func TestAcknowledgedTasksSurviveFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tasks")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path, limitEnv+"="+strconv.Itoa(256<<10))
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// The child ends with the error of its first call that fails. It may end before another goroutine
	// has logged the cause.
	if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), task.ErrUnavailable.Error()) {
		t.Fatalf("the child ended with %v: %s", err, stderr.String())
	}
	known := map[string]*history{}
	if n := readAcks(t, strings.NewReader(stdout.String()), known, func() {}); n < 100 {
		t.Errorf("only %d acknowledgements", n)
	}
	check(t, path, known)
}

// While the disk is full, writes fail and reads succeed. Once there is free space, writes succeed
// again. The test runs in a child process, because the limit applies to a whole process.
func TestStoreRecoversFromFullDisk(t *testing.T) {
	const env = "MCPWIRE_TASK_RECOVERS"
	if os.Getenv(env) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestStoreRecoversFromFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), env+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tasks")
		s := store(t, path)
		small := put(t, s, "small", 0, 10)
		var before syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
		signal.Ignore(syscall.SIGXFSZ) // writes beyond the limit return an error instead
		limit := func(n uint64) {
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: before.Max}); err != nil {
				t.Fatal(err)
			}
		}
		limit(256 << 10)
		large := task.Record{ID: "large", Result: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}
		waiting := make(chan error, 1)
		go func() {
			_, err := s.Wait(t.Context(), "small", small.Revision)
			waiting <- err
		}()
		for range 3 {
			if _, err := s.Create(t.Context(), large); err == nil {
				t.Fatal("a task that does not fit was stored")
			}
			if err := s.Health(); err == nil || !strings.Contains(err.Error(), "file too large") {
				t.Errorf("health: %v", err)
			}
			if _, err := s.Get(t.Context(), "small"); err != nil {
				t.Errorf("read: %v", err)
			}
			if err := s.Compact(); err == nil {
				t.Error("a store that has failed was compacted")
			}
			time.Sleep(time.Second)
		}
		limit(before.Cur)
		time.Sleep(time.Second)
		if _, err := s.Create(t.Context(), large); err != nil {
			t.Errorf("create with free space: %v", err)
		}
		if err := s.Health(); err != nil {
			t.Errorf("health: %v", err)
		}
		small.StatusMessage = "changed"
		if _, err := s.Update(t.Context(), small); err != nil {
			t.Error(err)
		}
		if err := <-waiting; err != nil {
			t.Errorf("wait: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s, err := bolt.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, id := range []string{"small", "large"} {
			if _, err := s.Get(t.Context(), id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	})
}

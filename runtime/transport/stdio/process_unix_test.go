//go:build unix

package stdio_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

func TestApartStartsOwnProcessGroup(t *testing.T) {
	for _, apart := range []bool{false, true} {
		c := child(t, "server")
		c.Apart = apart
		p, err := stdio.Start(c)
		if err != nil {
			t.Fatal(err)
		}
		group, err := syscall.Getpgid(p.PID())
		if err != nil || (group == syscall.Getpgrp()) == apart {
			t.Errorf("apart %v: the server is in group %d, this process in %d; %v", apart, group, syscall.Getpgrp(), err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A shell does not forward a signal to the server that it runs.
func TestCloseTerminatesProcessGroup(t *testing.T) {
	held := filepath.Join(t.TempDir(), "held")
	if err := syscall.Mkfifo(held, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := stdio.Start(stdio.Command{
		Path: "sh", Args: []string{"-c", `sleep 1000 >"$0" 2>&1 & echo {}; wait`, held}, Apart: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	end, err := os.Open(held) // waits for the shell's child, which holds the other end
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if _, err := p.Read(); err != nil {
		t.Fatal(err)
	}
	stdio.SetTimeouts(p, time.Millisecond, time.Hour)
	if err := p.Close(); err == nil {
		t.Error("the shell exited without a signal")
	}
	if _, err := io.ReadAll(end); err != nil { // returns when the child has ended
		t.Error(err)
	}
}

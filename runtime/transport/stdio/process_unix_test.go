//go:build unix

package stdio_test

import (
	"syscall"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

func TestAServerMayBeApartFromTheTerminal(t *testing.T) {
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

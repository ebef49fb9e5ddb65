package network_test

import (
	"testing"

	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

func TestIsLoopback(t *testing.T) {
	for name, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.8.9.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "localhost.": false, "a.localhost": false, "10.0.0.1": false, "::2": false, "0.0.0.0": false, "[::1]": false, "127.0.0.1:80": false,
	} {
		if got := network.IsLoopback(name); got != want {
			t.Errorf("IsLoopback(%q) = %t, want %t", name, got, want)
		}
	}
}

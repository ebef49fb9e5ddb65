package network

import (
	"net/netip"
	"strings"
)

// IsLoopback reports whether name, the host of a URL without port and brackets, is localhost or a
// loopback address.
func IsLoopback(name string) bool {
	address, err := netip.ParseAddr(name)
	return err == nil && address.IsLoopback() || strings.EqualFold(name, "localhost")
}

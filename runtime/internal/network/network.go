// Package network tells apart clients that have no principal, by the network of their address. The
// limits that each principal has apply to each of these networks, so that one stranger cannot use
// up what is there for all.
package network

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Widths of networks in bits. One subscriber usually has an IPv4 address, or an IPv6 network of this
// size or larger. The neighbours in a network of 256 addresses share its limits.
const (
	bits4 = 24
	bits6 = 64
)

// Of returns the network of the client of a request, which is only good as a key. address
// returns the address of the client. If it is nil, the address is that of the connection, and Of
// returns "" for loopback and private addresses, because the connection may be that of a proxy. It
// also returns "" if there is no address.
func Of(r *http.Request, address func(*http.Request) netip.Addr) string {
	if address != nil {
		return of(address(r))
	}
	if a := peer(r); !a.IsLoopback() && !a.IsPrivate() && !a.IsLinkLocalUnicast() {
		return of(a)
	}
	return ""
}

func of(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	a = a.Unmap().WithZone("")
	bits := bits6
	if a.Is4() {
		bits = bits4
	}
	p, _ := a.Prefix(bits) // fails only for other widths
	return prefix + p.String()
}

// prefix is the beginning of each network. It is not printable, so that no principal is equal.
const prefix = "\x00network "

// Is reports whether an account is a network and not a principal.
func Is(account string) bool { return strings.HasPrefix(account, prefix) }

// peer returns the address of the other end of the connection of a request. The address is invalid
// if it is unknown.
func peer(r *http.Request) netip.Addr {
	a, _ := netip.ParseAddrPort(r.RemoteAddr)
	return a.Addr().Unmap().WithZone("") // no prefix contains an address with a zone
}

// Forwarded returns a function that returns the address of the client of a request that may have
// come through proxies. It is the last address that is not one of a proxy, in the list of the
// header X-Forwarded-For and the address of the connection. Each proxy must append to the list, not
// pass on a header field of its own.
func Forwarded(proxies ...netip.Prefix) func(*http.Request) netip.Addr {
	proxies = slices.Clone(proxies)
	for i, p := range proxies {
		if p.Addr().Is4In6() && p.Bits() >= 96 { // addresses are compared in their IPv4 form
			proxies[i] = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
	}
	trusted := func(a netip.Addr) bool {
		for _, p := range proxies {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	return func(r *http.Request) netip.Addr {
		a := peer(r)
		list := strings.Join(r.Header["X-Forwarded-For"], ",")
		for trusted(a) && list != "" {
			i := strings.LastIndexByte(list, ',')
			before, err := parse(strings.TrimSpace(list[i+1:]))
			if err != nil {
				break
			}
			a, list = before, list[:max(i, 0)]
		}
		return a
	}
}

// parse parses an address, which some proxies write with a port.
func parse(text string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return a.Unmap().WithZone(""), nil
	}
	a, err := netip.ParseAddrPort(text)
	return a.Addr().Unmap().WithZone(""), err
}

type key struct{}

// With returns a context with the network of the client of a message.
func With(ctx context.Context, network string) context.Context {
	return context.WithValue(ctx, key{}, network)
}

// From returns the network of the client of a message, or "" if it is unknown.
func From(ctx context.Context) string {
	network, _ := ctx.Value(key{}).(string)
	return network
}

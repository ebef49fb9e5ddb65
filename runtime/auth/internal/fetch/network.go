package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Network lists the addresses that may be reached in addition to public addresses.
type Network struct {
	AllowPrivate bool           // all addresses
	Allow        []netip.Prefix // these addresses
}

// Client sends requests. It is safe for concurrent use.
type Client struct {
	http    *http.Client // its transport and CheckRedirect apply the policy
	network Network
	hosts   []string // allowed at any address
	plain   []string // origins that may be reached without TLS
	local   bool     // whether loopback addresses may be reached
	base    http.RoundTripper
}

// New returns a client that uses the transport of h, or [http.DefaultTransport] if h or its
// transport is nil. It ignores all other fields of h.
//
// The client resolves names itself, checks the addresses, and connects to a checked address. There
// are two exceptions: a proxy resolves names itself, and a transport that is not an *http.Transport
// makes its own connections. In these cases, the client checks only the names and addresses in
// URLs.
func New(h *http.Client, n Network) *Client {
	c := &Client{network: n, base: http.DefaultTransport}
	if h != nil && h.Transport != nil {
		c.base = h.Transport
	}
	return c.connect(false)
}

// maxIdle limits the connections that are kept for further requests, and idleTimeout how long.
const (
	maxIdle     = 16
	idleTimeout = 30 * time.Second
)

// Reuse returns a copy of c whose connections serve several requests. It shares them with no other
// Client, because they are open to those addresses only that the policy of c allows.
func (c *Client) Reuse() *Client { return new(*c).connect(true) }

// connect sets the transport of c.
func (c *Client) connect(reuse bool) *Client {
	base := c.base
	var guarded http.RoundTripper = roundTripper(func(req *http.Request) (*http.Response, error) {
		if err := policyOf(req.Context()).checkName(req.URL.Hostname()); err != nil {
			return nil, err
		}
		return base.RoundTrip(req)
	})
	if t, ok := base.(*http.Transport); ok {
		guarded = guard(t, reuse)
	}
	c.http = &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		if err := policyOf(req.Context()).CheckURL(req.URL); err != nil {
			return nil, err
		}
		return guarded.RoundTrip(req)
	}), CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if via[0].Method != http.MethodGet {
			return http.ErrUseLastResponse
		}
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		req.Header.Del("Referer")
		return nil
	}}
	return c.bind()
}

// For returns a copy of c that allows the URLs that the caller has named itself. It reaches their
// hosts at any address, and origins with scheme http without TLS. If one of the hosts is a loopback
// address, it reaches all loopback addresses.
func (c *Client) For(named ...*url.URL) *Client {
	copied := *c
	copied.hosts, copied.plain = slices.Clone(c.hosts), slices.Clone(c.plain)
	for _, u := range named {
		host := hostname(u)
		copied.hosts = append(copied.hosts, host)
		copied.local = copied.local || isLocal(host)
		if strings.EqualFold(u.Scheme, "http") {
			copied.plain = append(copied.plain, strings.ToLower(u.Host))
		}
	}
	return copied.bind()
}

// bind adds c as the policy to the requests of c.
func (c *Client) bind() *Client {
	h := *c.http
	h.Transport = policyTripper{c, unwrap(h.Transport)}
	c.http = &h
	return c
}

// policyTripper puts the policy into the context of a request.
type policyTripper struct {
	policy *Client
	next   http.RoundTripper
}

func (t policyTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.next.RoundTrip(req.WithContext(context.WithValue(req.Context(), policyKey{}, t.policy)))
}

func unwrap(t http.RoundTripper) http.RoundTripper {
	if p, ok := t.(policyTripper); ok {
		return p.next
	}
	return t
}

type (
	policyKey    struct{}
	unguardedKey struct{} // set if the dialer connects to a proxy
	roundTripper func(*http.Request) (*http.Response, error)
)

func policyOf(ctx context.Context) *Client { return ctx.Value(policyKey{}).(*Client) }

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// CheckURL checks a URL without resolving its host. The scheme must be https. It may be http for an
// allowed loopback host, and for an origin that the caller has named. The URL must have neither
// user nor fragment.
func (c *Client) CheckURL(u *url.URL) error {
	switch host := hostname(u); {
	case u.User != nil:
		return fmt.Errorf("%w: the URL has a user", ErrRefused)
	case u.Fragment != "":
		return fmt.Errorf("%w: the URL has a fragment", ErrRefused)
	case host == "" || u.Opaque != "":
		return fmt.Errorf("%w: the URL has no host", ErrRefused)
	case u.Scheme == "http" && isLocal(host):
	case u.Scheme == "http" && slices.Contains(c.plain, strings.ToLower(u.Host)):
	case u.Scheme != "https":
		return fmt.Errorf("%w: scheme %q is not https", ErrRefused, u.Scheme)
	}
	if c.named(hostname(u)) {
		return nil
	}
	if address, err := netip.ParseAddr(u.Hostname()); err == nil {
		return c.checkAddress(address)
	}
	if isLocal(hostname(u)) {
		return c.checkAddress(loopback)
	}
	return nil
}

var loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// CheckEndpoint is like CheckURL, for an endpoint of an authorization server. It allows http for
// loopback hosts only, and refuses names that by convention have private addresses.
func (c *Client) CheckEndpoint(rawURL string) error {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return fmt.Errorf("%w: malformed URL", ErrRefused)
	case u.Scheme != "https" && !isLocal(hostname(u)):
		return fmt.Errorf("%w: scheme %q of %s is not https", ErrRefused, u.Scheme, Show(rawURL))
	}
	if err := c.CheckURL(u); err != nil {
		return fmt.Errorf("%w (%s)", err, Show(rawURL))
	}
	return c.checkName(hostname(u))
}

func (c *Client) named(host string) bool {
	return c.network.AllowPrivate || slices.Contains(c.hosts, host)
}

// checkName refuses names that by convention have private addresses.
func (c *Client) checkName(host string) error {
	if c.named(host) {
		return nil
	}
	if address, err := netip.ParseAddr(host); err == nil {
		return c.checkAddress(address)
	}
	if isLocal(host) {
		return c.checkAddress(loopback)
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last == "local" || last == "internal" || last == "" || '0' <= last[0] && last[0] <= '9' {
		return fmt.Errorf("%w: %q", ErrRefused, Printable(host))
	}
	return nil
}

func (c *Client) checkAddress(a netip.Addr) error {
	a = a.Unmap().WithZone("")
	switch {
	case c.network.AllowPrivate, c.local && a.IsLoopback(), isPublic(a):
		return nil
	case slices.ContainsFunc(c.network.Allow, func(p netip.Prefix) bool { return p.Contains(a) }):
		return nil
	}
	return fmt.Errorf("%w: %s is not a public address", ErrRefused, a)
}

func hostname(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".") }

// isLocal reports whether host is a loopback address or a name of one (RFC 6761, section 6.3).
func isLocal(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// reserved lists the networks of the IANA special-purpose registries that are not global and that
// package netip does not recognize.
var reserved = prefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4",
	"::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "fec0::/10")

// embedding lists the networks whose addresses contain an IPv4 address, and the offset of its first
// byte.
var embedding = map[netip.Prefix]int{
	netip.MustParsePrefix("64:ff9b::/96"): 12,
	netip.MustParsePrefix("2002::/16"):    2,
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// isPublic reports whether a is a public address. a must not be an IPv4-mapped address.
func isPublic(a netip.Addr) bool {
	for p, at := range embedding {
		if p.Contains(a) {
			b := a.As16()
			return isPublic(netip.AddrFrom4([4]byte(b[at : at+4])))
		}
	}
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}

// guard returns a copy of t that resolves names itself, checks their addresses, and connects to
// them with the dialer of t. It reuses connections only if the policies of all requests are the same.
func guard(t *http.Transport, reuse bool) http.RoundTripper {
	t = t.Clone()
	dial := t.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialChecked(ctx, network, address, dial)
	}
	//lint:ignore SA1019 they would replace the dialer that checks
	t.Dial, t.DialTLS, t.DialTLSContext = nil, nil, nil
	t.DisableKeepAlives = !reuse
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = maxIdle, maxIdle, idleTimeout
	t.TLSHandshakeTimeout = cmp.Or(min(t.TLSHandshakeTimeout, 5*time.Second), 5*time.Second)
	t.MaxResponseHeaderBytes = maxHeader
	// Requests share connections of HTTP/2 even without keep-alives.
	t.ForceAttemptHTTP2, t.TLSNextProto, t.Protocols = false, map[string]func(string, *tls.Conn) http.RoundTripper{}, new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{}
	}
	t.TLSClientConfig.NextProtos = nil
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		if t.Proxy != nil {
			if proxy, err := t.Proxy(req); err != nil || proxy != nil {
				if err == nil {
					err = policyOf(req.Context()).checkName(hostname(req.URL))
				}
				if err != nil {
					return nil, err
				}
				req = req.WithContext(context.WithValue(req.Context(), unguardedKey{}, true))
			}
		}
		return t.RoundTrip(req)
	})
}

// dialTimeout limits the attempt to connect to one address of a name.
const dialTimeout = 3 * time.Second

func dialChecked(ctx context.Context, network, address string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	c := policyOf(ctx)
	if ctx.Value(unguardedKey{}) != nil || c.named(strings.TrimSuffix(strings.ToLower(host), ".")) {
		return dial(ctx, network, address)
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if err := c.checkAddress(a); err != nil {
			return nil, err
		}
	}
	var failed []error
	for _, a := range alternate(addresses) {
		attempt, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err := dial(attempt, network, net.JoinHostPort(a.Unmap().String(), port))
		cancel()
		if err == nil {
			return conn, nil
		}
		failed = append(failed, err)
	}
	return nil, errors.Join(failed...)
}

// alternate sorts addresses so that IPv4 and IPv6 addresses alternate. If all connections of one
// kind hang, the other kind is tried before the request times out.
func alternate(addresses []netip.Addr) []netip.Addr {
	var kinds [2][]netip.Addr // the kind of the first address comes first
	for _, a := range addresses {
		kind := 0
		if a.Unmap().Is4() != addresses[0].Unmap().Is4() {
			kind = 1
		}
		kinds[kind] = append(kinds[kind], a)
	}
	ordered := make([]netip.Addr, 0, len(addresses))
	for i := range addresses {
		for _, list := range kinds {
			if i < len(list) {
				ordered = append(ordered, list[i])
			}
		}
	}
	return ordered
}

package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // for checkSize
	_ "image/png"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
)

// What an icon may have.
const (
	maxIcon      = 1 << 20 // bytes
	maxDimension = 4096    // pixels, in width and in height
	maxFrames    = 100     // of an animation
)

// Picture is an icon that can be drawn.
type Picture struct {
	MIMEType string // image/png, image/jpeg, image/webp or image/svg+xml, by what is in it
	Data     []byte
}

// Icons fetches icons. The zero value fetches those that are in data URIs alone. It may be used by many goroutines.
type Icons struct {
	// Server is a URL of the server that the icons are of. They are fetched from its origin; "" means from none.
	Server string

	// Hosts are hosts, such as "icons.example.com", from which icons are fetched, too. They must not be on this machine
	// or in a private network, or the server could make the client ask around there.
	Hosts []string

	// Transport sends the requests, and decides itself which addresses may be connected with; nil means one that
	// uses no proxy, and refuses addresses of this machine and of private networks for Hosts. It must add no
	// cookies and no credentials: a server of icons is not to know who asks.
	Transport http.RoundTripper
}

// Icons returns what fetches icons of the server: from its own origin if it is reached by [Dial], and from hosts.
func (c *Client) Icons(hosts ...string) *Icons { return &Icons{Server: c.origin, Hosts: hosts} }

// Fetch returns the picture at the source of an icon, which is an https or a data URI. It fails for any other
// scheme, for other hosts than Icons admits, if a redirect leads to another origin, for more than a megabyte, 4096
// pixels on a side or 100 frames, and if what comes is no picture of a kind that [Picture] names, whatever its
// type is said to be. A picture in SVG may hold scripts: draw it where they do not run (MCP, "Icons").
func (f *Icons) Fetch(ctx context.Context, src string) (*Picture, error) {
	u, err := url.Parse(src)
	if err != nil {
		return nil, errors.New("client: icon: malformed URI")
	}
	var data []byte
	switch u.Scheme {
	case "data":
		data, err = inline(src)
	case "https":
		data, err = f.get(ctx, u)
	default:
		err = fmt.Errorf("URI scheme %q is not supported", u.Scheme)
	}
	if err == nil && len(data) > maxIcon {
		err = fmt.Errorf("more than %d bytes", maxIcon)
	}
	kind := pictureType(data)
	if err == nil && kind == "" {
		err = errors.New("no picture of a known kind")
	}
	if err == nil {
		err = checkSize(kind, data)
	}
	if err != nil {
		return nil, fmt.Errorf("client: icon: %w", err)
	}
	return &Picture{kind, data}, nil
}

// client returns what may send requests to a host.
func (f *Icons) client(u *url.URL) (*http.Client, error) {
	c := &http.Client{Transport: f.Transport}
	server, err := url.Parse(f.Server)
	switch {
	case err == nil && server.Scheme == "https" && sameHost(server.Host, u.Host):
		return c, nil // the client is connected with it already
	case !slices.ContainsFunc(f.Hosts, func(h string) bool { return sameHost(h, u.Host) }):
		return nil, fmt.Errorf("host %q is neither that of the server nor a trusted one", u.Host)
	}
	if c.Transport == nil {
		c.Transport = public
	}
	return c, nil
}

// public is a transport that connects with public addresses only. Connections are not kept: icons are few.
var public = &http.Transport{
	DialContext:         (&net.Dialer{Timeout: 10 * time.Second, Control: refusePrivate}).DialContext,
	TLSHandshakeTimeout: 10 * time.Second,
	DisableKeepAlives:   true,
}

// refusePrivate looks at the address that is about to be connected with, after the name was resolved.
func refusePrivate(_, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := a.Addr().Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) }) {
		return fmt.Errorf("address %s is not public", ip)
	}
	return nil
}

// special are the networks that are not public although netip does not call them private (RFC 6890), or that hold
// addresses of IPv4, which may be private.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

// sameHost compares two hosts, with or without the port of https.
func sameHost(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, ":443"), strings.TrimSuffix(b, ":443"))
}

// get fetches what is at an https URL.
func (f *Icons) get(ctx context.Context, u *url.URL) ([]byte, error) {
	c, err := f.client(u)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.URL.User = nil // which would become credentials
	c.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if next.URL.Scheme != u.Scheme || next.URL.Host != u.Host || len(via) > 3 {
			return errors.New("redirected elsewhere")
		}
		next.URL.User = nil
		next.Header.Del("Referer")
		return nil
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server answers %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxIcon+1))
}

// PickIcon returns the icon that fits best for a square of size pixels on a background of a theme, or nil without icons.
// An icon for the theme, or for any, comes before one for the other. Then one that scales, or has the size, comes
// before the next larger one, and that before smaller ones. Size 0 means the largest, and theme "" any.
func PickIcon(icons []mcp.Icon, size int, theme mcp.IconTheme) *mcp.Icon {
	var best *mcp.Icon
	var least int
	for i := range icons {
		rank := distance(icons[i].Sizes, size)
		if t := icons[i].Theme; t != nil && theme != "" && *t != theme {
			rank += 1 << 24
		}
		if best == nil || rank < least {
			best, least = &icons[i], rank
		}
	}
	return best
}

// distance ranks the sizes of an icon for a wanted one: 0 fits.
func distance(sizes []string, want int) int {
	if len(sizes) == 0 {
		return 0
	}
	const far = 1 << 16
	least := 2 * far
	for _, s := range sizes {
		d := 2 * far
		w, h, ok := strings.Cut(strings.ToLower(s), "x")
		width, errW := strconv.Atoi(w)
		height, errH := strconv.Atoi(h)
		side := min(width, height)
		switch {
		case s == "any":
			d = 0
		case !ok || errW != nil || errH != nil || side <= 0 || side >= far:
		case want <= 0:
			d = far - side
		case side >= want:
			d = side - want
		default:
			d = far + want - side
		}
		least = min(least, d)
	}
	return least
}

// inline returns what is in a data URI (RFC 2397).
func inline(src string) ([]byte, error) {
	head, body, ok := strings.Cut(strings.TrimPrefix(src, "data:"), ",")
	if !ok || len(body) > 2*maxIcon {
		return nil, errors.New("a data URI without data, or with too much")
	}
	text, err := url.PathUnescape(body)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(strings.ToLower(head), ";base64") {
		return base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "=")) // some leave the padding out
	}
	return []byte(text), nil
}

// pictureType tells what kind of picture data is, or returns "".
func pictureType(data []byte) string {
	kind, _, err := mime.ParseMediaType(http.DetectContentType(data))
	if err != nil {
		return ""
	}
	switch kind {
	case "image/png", "image/jpeg", "image/webp":
		return kind
	case "text/xml", "text/plain", "text/html", "image/svg+xml": // HTML is what begins with a comment
		if isSVG(data) {
			return "image/svg+xml"
		}
	}
	return ""
}

// isSVG reports whether the root of an XML document is that of a picture.
func isSVG(data []byte) bool {
	d := xml.NewDecoder(bytes.NewReader(data))
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if start, ok := token.(xml.StartElement); ok {
			return start.Name.Local == "svg" && (start.Name.Space == "" || start.Name.Space == "http://www.w3.org/2000/svg")
		}
	}
}

// checkSize tells why a picture is too large to be drawn. One in SVG has no size of its own, and one whose size cannot be
// read is as good as none.
func checkSize(kind string, data []byte) error {
	width, height, frames := 0, 0, 1
	switch kind {
	case "image/png", "image/jpeg":
		c, _, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			return err
		}
		width, height = c.Width, c.Height
		if kind == "image/png" {
			frames = pngFrames(data)
		}
	case "image/webp":
		width, height, frames = webpSize(data)
		if width == 0 {
			return errors.New("malformed WebP picture")
		}
	}
	if width > maxDimension || height > maxDimension {
		return fmt.Errorf("%d×%d pixels are more than %d×%d", width, height, maxDimension, maxDimension)
	}
	if frames > maxFrames {
		return fmt.Errorf("%d frames are more than %d", frames, maxFrames)
	}
	return nil
}

// pngFrames counts the frames of a PNG, by its frame control chunks.
func pngFrames(data []byte) (n int) {
	for rest := data[8:]; len(rest) >= 12; {
		length := binary.BigEndian.Uint32(rest)
		if string(rest[4:8]) == "fcTL" {
			n++
		}
		if uint64(length)+12 > uint64(len(rest)) {
			break
		}
		rest = rest[12+length:]
	}
	return max(n, 1)
}

// webpSize returns the size of a WebP picture, 0 if it cannot be read, and how many frames it has (RFC 9649).
func webpSize(data []byte) (width, height, frames int) {
	for rest := data[12:]; len(rest) >= 8; {
		name, length := string(rest[:4]), uint64(binary.LittleEndian.Uint32(rest[4:]))
		chunk := rest[8:]
		w, h := 0, 0
		switch {
		case name == "VP8X" && len(chunk) >= 10:
			w, h = 1+uint24(chunk[4:]), 1+uint24(chunk[7:])
		case name == "VP8 " && len(chunk) >= 10:
			w, h = int(binary.LittleEndian.Uint16(chunk[6:])&0x3fff), int(binary.LittleEndian.Uint16(chunk[8:])&0x3fff)
		case name == "VP8L" && len(chunk) >= 5:
			bits := binary.LittleEndian.Uint32(chunk[1:])
			w, h = 1+int(bits&0x3fff), 1+int(bits>>14&0x3fff)
		case name == "ANMF":
			frames++
		}
		width, height = max(width, w), max(height, h)
		if length += length & 1; length > uint64(len(chunk)) {
			break
		}
		rest = chunk[length:]
	}
	return width, height, max(frames, 1)
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

// Package icon fetches the icons that servers name for themselves, their tools and the rest, and
// chooses the one to show (MCP, "Icons").
//
// A server may name any URL. [Fetcher] fetches from the server's own origin and from public
// addresses of trusted hosts, sends no credentials, and returns only pictures whose type and size
// it has checked.
package icon

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

// Limits of an icon.
const (
	maxIcon      = 1 << 20 // bytes
	maxDimension = 4096    // pixels, in width and in height
	maxFrames    = 100     // of an animation
)

// Fetcher fetches icons. The zero value fetches only icons in data URIs. It is safe for concurrent
// use.
type Fetcher struct {
	// Server is a URL of the server that the icons belong to, such as that of client.Dial. Icons
	// are fetched from its origin. Empty means that no icons are fetched from the server.
	Server string

	// Hosts are further hosts, such as "icons.example.com", from which icons are fetched. They must
	// not be on this machine or in a private network, or the server could make the client send
	// requests there.
	Hosts []string

	// Transport sends the requests, and decides which addresses it connects to. Nil means
	// [http.DefaultTransport] for the origin of Server. For Hosts, it means a transport that uses
	// no proxy and refuses addresses of this machine and of private networks. It must add no
	// cookies and no credentials, so that the icon server cannot identify the user.
	Transport http.RoundTripper
}

// Fetch returns the picture at the source of an icon, which is an https or a data URI, and its
// type, which it detects from the data: image/png, image/jpeg, image/webp or image/svg+xml. It
// fails for data of other types, for other schemes, for hosts that f does not admit, and if a
// redirect leads to another origin. It fails for more than 1 MiB, 4096 pixels on a side or 100
// frames. An SVG picture may contain scripts: draw it where they do not run (MCP, "Icons").
func (f *Fetcher) Fetch(ctx context.Context, src string) (mimeType string, data []byte, err error) {
	u, err := url.Parse(src)
	if err != nil {
		return "", nil, errors.New("icon: malformed URI")
	}
	switch u.Scheme {
	case "data":
		data, err = dataOf(src)
	case "https":
		data, err = f.get(ctx, u)
	default:
		err = fmt.Errorf("URI scheme %q is not supported", u.Scheme)
	}
	if err == nil && len(data) > maxIcon {
		err = fmt.Errorf("more than %d bytes", maxIcon)
	}
	mimeType = pictureType(data)
	if err == nil && mimeType == "" {
		err = errors.New("picture type is not supported")
	}
	if err == nil {
		err = checkSize(mimeType, data)
	}
	if err != nil {
		return "", nil, fmt.Errorf("icon: %w", err)
	}
	return mimeType, data, nil
}

// client returns an HTTP client for the host of u, or an error if f does not admit the host.
func (f *Fetcher) client(u *url.URL) (*http.Client, error) {
	c := &http.Client{Transport: f.Transport}
	server, err := url.Parse(f.Server)
	switch {
	case err == nil && server.Scheme == "https" && sameHost(server.Host, u.Host):
		return c, nil // the client is already connected to this host
	case !slices.ContainsFunc(f.Hosts, func(h string) bool { return sameHost(h, u.Host) }):
		return nil, fmt.Errorf("host %q is neither that of the server nor a trusted one", u.Host)
	}
	if c.Transport == nil {
		c.Transport = public
	}
	return c, nil
}

// public is a transport that connects to public addresses only. It keeps no idle connections,
// because icons are few.
var public = &http.Transport{
	DialContext:         (&net.Dialer{Timeout: 10 * time.Second, Control: refusePrivate}).DialContext,
	TLSHandshakeTimeout: 10 * time.Second,
	DisableKeepAlives:   true,
}

// refusePrivate returns an error if address is not public. The dialer calls it with the resolved
// address.
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

// special lists networks that are not public although netip does not report them as private (RFC
// 6890), and networks whose addresses embed IPv4 addresses, which may be private.
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

// sameHost reports whether two hosts are equal; port 443 may be given or left out.
func sameHost(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, ":443"), strings.TrimSuffix(b, ":443"))
}

// get fetches the data at an https URL.
func (f *Fetcher) get(ctx context.Context, u *url.URL) ([]byte, error) {
	c, err := f.client(u)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.URL.User = nil // would be sent as credentials
	c.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if next.URL.Scheme != u.Scheme || next.URL.Host != u.Host {
			return errors.New("redirect to another origin")
		}
		if len(via) > 3 {
			return errors.New("more than 3 redirects")
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
		return nil, fmt.Errorf("unexpected status %q", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxIcon+1))
}

// Pick returns the best icon for a square of size pixels on a background of the given theme, or
// nil if there are no icons. It prefers an icon for the theme, or for any theme, to one for the
// other theme. Among those it prefers a scalable icon or one of the exact size, then the next
// larger one, then smaller ones. Size 0 means the largest, and theme "" means any.
func Pick(icons []mcp.Icon, size int, theme mcp.IconTheme) *mcp.Icon {
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

// distance rates how far the sizes of an icon are from want pixels. 0 is an exact match.
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

// dataOf returns the data of a data URI (RFC 2397).
func dataOf(src string) ([]byte, error) {
	head, body, ok := strings.Cut(strings.TrimPrefix(src, "data:"), ",")
	if !ok {
		return nil, errors.New("data URI without data")
	}
	if len(body) > 2*maxIcon {
		return nil, fmt.Errorf("data URI of more than %d bytes", 2*maxIcon)
	}
	text, err := url.PathUnescape(body)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(strings.ToLower(head), ";base64") {
		return base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "=")) // padding is optional
	}
	return []byte(text), nil
}

// pictureType returns the MIME type of a picture, or "" if the type is not supported.
func pictureType(data []byte) string {
	kind, _, err := mime.ParseMediaType(http.DetectContentType(data))
	if err != nil {
		return ""
	}
	switch kind {
	case "image/png", "image/jpeg", "image/webp":
		return kind
	case "text/xml", "text/plain", "text/html", "image/svg+xml": // a text that begins with a comment is detected as HTML
		if isSVG(data) {
			return "image/svg+xml"
		}
	}
	return ""
}

// isSVG reports whether the root element of an XML document is that of SVG.
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

// checkSize returns an error if a picture exceeds the limits or if its size cannot be read. An SVG
// picture has no size in pixels.
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

// webpSize returns the size and the number of frames of a WebP picture (RFC 9649). The size is 0 if
// it cannot be read.
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

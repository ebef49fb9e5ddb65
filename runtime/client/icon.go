package client

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// maxIcon is how many bytes an icon may have.
const maxIcon = 1 << 20

// Picture is an icon that can be drawn.
type Picture struct {
	MIMEType string // image/png, image/jpeg, image/webp or image/svg+xml, by what is in it
	Data     []byte
}

// Icons fetches icons. The zero value is ready; it may be used by many goroutines.
type Icons struct {
	// Transport sends the requests; nil means [http.DefaultTransport]. It must add no cookies and no
	// credentials: an icon is fetched by nobody in particular.
	Transport http.RoundTripper
}

// Fetch returns the picture at the source of an icon, which is an https or a data URI. It fails for any
// other scheme, if a redirect leads to another origin, for more than a megabyte, and if what comes is no
// picture of a kind that [Picture] names, whatever its type is said to be. A picture in SVG may hold
// scripts: draw it where they do not run (MCP, "Icons").
func (f *Icons) Fetch(ctx context.Context, src string) (*Picture, error) {
	u, err := url.Parse(src)
	if err != nil {
		return nil, fmt.Errorf("client: icon: %w", err)
	}
	var data []byte
	switch u.Scheme {
	case "data":
		data, err = inline(src)
	case "https":
		data, err = f.get(ctx, u)
	default:
		err = fmt.Errorf("the scheme %q is none for icons", u.Scheme)
	}
	if err == nil && len(data) > maxIcon {
		err = errors.New("it is too large")
	}
	if err != nil {
		return nil, fmt.Errorf("client: icon: %w", err)
	}
	kind := pictureType(data)
	if kind == "" {
		return nil, errors.New("client: icon: it is no picture of a known kind")
	}
	return &Picture{kind, data}, nil
}

// get fetches what is at an https URL.
func (f *Icons) get(ctx context.Context, u *url.URL) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.URL.User = nil // which would become credentials
	c := http.Client{Transport: f.Transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if next.URL.Scheme != u.Scheme || next.URL.Host != u.Host || len(via) > 3 {
			return errors.New("redirected elsewhere")
		}
		next.URL.User = nil
		next.Header.Del("Referer")
		return nil
	}}
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
	if strings.HasSuffix(head, ";base64") {
		return base64.StdEncoding.DecodeString(text)
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
	case "text/xml", "text/plain", "image/svg+xml":
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

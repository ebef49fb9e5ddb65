package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/authtext"
	"github.com/mcpwire/mcpwire/runtime/auth/internal/fetch"
)

const (
	discoveryTimeout = 30 * time.Second // for all requests of one discovery
	wellKnown        = "/.well-known/"
	resourceDocument = wellKnown + "oauth-protected-resource"
)

// errNoMetadata means that no well-known URL has a document.
var errNoMetadata = errors.New("no metadata found")

// missing reports whether err means that a URL has no document. Then the next URL is tried.
func missing(err error) bool {
	var failed *fetch.Error
	if !errors.As(err, &failed) {
		return false
	}
	return failed.Status != 0 && failed.Err == nil || errors.Is(err, fetch.ErrNotJSON)
}

// getFirst tries urls in order. It decodes the first document that exists into v and returns its
// URL.
func getFirst(ctx context.Context, c *fetch.Client, urls []string, v any) (string, error) {
	var tried []error
	for _, u := range urls {
		err := c.GetJSON(ctx, u, v)
		if err == nil {
			return u, nil
		}
		if !missing(err) {
			return "", err
		}
		tried = append(tried, err)
	}
	texts := make([]string, len(tried))
	for i, err := range tried {
		texts[i] = err.Error()
	}
	return "", fmt.Errorf("%w: %s", errNoMetadata, strings.Join(texts, "; "))
}

// discoverResource gets the resource metadata of a server (RFC 9728, section 3). advertised is the
// metadata URL of the server's challenge. If it is "", the well-known URLs are tried.
func discoverResource(ctx context.Context, c *fetch.Client, server *url.URL, advertised string) (*auth.ResourceMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	root := url.URL{Scheme: server.Scheme, Host: server.Host}
	urls := []string{root.String() + resourceDocument}
	if path := server.EscapedPath(); path != "" && path != "/" {
		urls = []string{urls[0] + path, urls[0]}
	}
	if advertised != "" {
		urls = []string{advertised}
	}
	m := &auth.ResourceMetadata{}
	from, err := getFirst(ctx, c, urls, m)
	if err != nil {
		return nil, err
	}
	if err := checkResource(server, m.Resource, from); err != nil {
		return nil, err
	}
	return m, nil
}

// checkResource checks that the published resource identifies the server. It may be a prefix of the
// server's URL only if the document is at a well-known URL of the server's origin. A document at
// another URL is not authoritative for the whole origin.
func checkResource(server *url.URL, resource, from string) error {
	wrong := fmt.Errorf("the metadata is for resource %q", fetch.Printable(resource))
	want, err := authtext.Canonical(server.String())
	if err != nil {
		return err
	}
	got, err := authtext.Canonical(resource)
	if err != nil {
		return wrong
	}
	if strings.TrimSuffix(got, "/") == strings.TrimSuffix(want, "/") {
		return nil
	}
	source, err := url.Parse(from)
	atOrigin := err == nil && sameOrigin(source, server) && strings.HasPrefix(source.Path+"/", resourceDocument+"/") &&
		!strings.Contains(source.Path, "..") && !strings.ContainsAny(source.Path, `\%`) // some servers resolve these to another path
	if atOrigin && !strings.Contains(got, "?") && strings.HasPrefix(want, strings.TrimSuffix(got, "/")+"/") {
		return nil
	}
	return wrong
}

func sameOrigin(a, b *url.URL) bool {
	if a.Scheme == b.Scheme && a.Host == b.Host && a.Host != "" {
		return true
	}
	origin := func(u *url.URL) string {
		text, err := authtext.Canonical((&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
		if err != nil {
			return ""
		}
		return text
	}
	return origin(a) != "" && origin(a) == origin(b)
}

// discoverServer gets the metadata of an authorization server (RFC 8414, section 3, and OpenID
// Connect Discovery 1.0, section 4).
func discoverServer(ctx context.Context, c *fetch.Client, issuer string) (*auth.ServerMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	if err := c.CheckEndpoint(issuer); err != nil {
		return nil, err
	}
	u, err := url.Parse(issuer)
	if err != nil || u.RawQuery != "" || strings.Contains(issuer, "#") {
		return nil, fmt.Errorf("%w: %q is not an issuer", ErrIssuer, fetch.Printable(issuer))
	}
	origin := (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	urls := []string{
		origin + wellKnown + "oauth-authorization-server" + path,
		origin + wellKnown + "openid-configuration" + path,
	}
	if path != "" {
		urls = append(urls, origin+path+wellKnown+"openid-configuration")
	}
	m := &auth.ServerMetadata{}
	if _, err := getFirst(ctx, c, urls, m); err != nil {
		return nil, err
	}
	if m.Issuer != issuer {
		return nil, fmt.Errorf("%w: the metadata of %q names issuer %q", ErrIssuer, fetch.Printable(issuer), fetch.Printable(m.Issuer))
	}
	if m.TokenEndpoint == "" {
		return nil, errors.New("the metadata has no token_endpoint")
	}
	return m, nil
}

// checkEndpoints checks endpoint URLs of metadata. It skips empty ones.
func checkEndpoints(c *fetch.Client, endpoints ...string) error {
	for _, endpoint := range endpoints {
		if endpoint == "" {
			continue
		}
		if err := c.CheckEndpoint(endpoint); err != nil {
			return err
		}
	}
	return nil
}

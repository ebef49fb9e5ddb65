package authtext

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Canonical returns the canonical form of a resource URL (RFC 8707, section 2). It converts the
// scheme and the host to lower case, and removes the default port of the scheme and the path "/".
// Other paths and the query are unchanged. Canonical fails if the URL is not absolute, if its
// scheme is not http or https, or if it has userinfo, a fragment, or a path with "." or ".."
// segments.
func Canonical(rawURL string) (string, error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("auth: resource URL: %w", err) }
	if strings.Contains(rawURL, "#") {
		return fail(errors.New("fragment not allowed"))
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return fail(errors.Unwrap(err)) // the *url.Error quotes the URL, which may have a password
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.User != nil:
		return fail(errors.New("userinfo not allowed"))
	case u.Scheme != "http" && u.Scheme != "https":
		return fail(fmt.Errorf("scheme %q is not http or https", u.Scheme))
	case u.Hostname() == "":
		return fail(fmt.Errorf("%q has no host", rawURL))
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return fail(fmt.Errorf(`path %q has "." or ".." segments`, u.Path))
		}
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + strings.ReplaceAll(host, "%", "%25") + "]"
	}
	if text := u.Port(); text != "" {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil || port == 0 {
			return fail(fmt.Errorf("port %q is not valid", text))
		}
		if !(u.Scheme == "http" && port == 80) && !(u.Scheme == "https" && port == 443) {
			host += ":" + strconv.FormatUint(port, 10)
		}
	}
	path := u.EscapedPath()
	if path == "/" {
		path = ""
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return u.Scheme + "://" + host + path, nil
}

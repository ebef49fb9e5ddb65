package modern

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/mcpwire/mcpwire/runtime/internal/network"
)

// CheckPage returns an error if a user must not be asked to visit a page of a server. Its URL must
// be https, or http on this machine, name a host, and hold no user name or password, which can pass
// for the host (MCP elicitation, "Safe URL Handling"). The error does not have the URL.
func CheckPage(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("malformed URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("URL scheme %q is not supported", u.Scheme)
	case u.Hostname() == "":
		return errors.New("URL has no host")
	case u.User != nil:
		return errors.New("URL has user information")
	case u.Scheme == "http" && !network.IsLoopback(u.Hostname()):
		return fmt.Errorf("URL of host %q is not https", u.Hostname())
	}
	return nil
}

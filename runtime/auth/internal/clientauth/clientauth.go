// Package clientauth authenticates clients at the endpoints of authorization servers.
package clientauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/mcpwire/mcpwire/runtime/auth"
)

// Methods of client authentication (RFC 7591, section 2).
const (
	None  = "none"
	Basic = "client_secret_basic"
	Post  = "client_secret_post"
)

// Secret authenticates a client with its secret. It implements the ClientAuth of package oauth.
type Secret struct {
	method string
	secret auth.Secret
}

// New returns the authentication by a method: Basic is by the Authorization header, Post by the
// form, and None sends only the id of the client, in the form.
func New(method string, secret auth.Secret) Secret { return Secret{method, secret} }

// Method returns the name of the method.
func (a Secret) Method() string { return a.method }

// Apply adds the authentication to a request. It fails if the secret is not meant for the issuer.
func (a Secret) Apply(_ context.Context, issuer, clientID string, form url.Values, header http.Header) error {
	if a.method == None {
		form.Set("client_id", clientID)
		return nil
	}
	to, err := url.Parse(issuer)
	if err != nil {
		return errors.New("malformed issuer")
	}
	secret, err := a.secret.RevealTo(to)
	if err != nil {
		return fmt.Errorf("client secret: %w", err)
	}
	if a.method == Basic {
		r := http.Request{Header: header}
		r.SetBasicAuth(url.QueryEscape(clientID), url.QueryEscape(secret)) // RFC 6749, section 2.3.1
		return nil
	}
	form.Set("client_id", clientID)
	form.Set("client_secret", secret)
	return nil
}

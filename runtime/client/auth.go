package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// Token returns an Authorizer that sends a bearer token with each request. If the server rejects
// the token, the request fails. Requests also fail if the token is empty, or if it is meant for
// another server ([auth.Secret.For]).
func Token(token auth.Secret) httpclient.Authorizer { return bearer{token} }

type bearer struct{ token auth.Secret }

func (b bearer) Authorize(req *http.Request, _ httpclient.Operation) error {
	if b.token.Empty() {
		return errors.New("client: the token is empty")
	}
	token, err := b.token.RevealTo(req.URL)
	if err != nil {
		return fmt.Errorf("client: token: %w", err)
	}
	if strings.ContainsFunc(token, unicode.IsControl) {
		return errors.New("client: the token has a control character, such as the line feed at the end of a file")
	}
	req.Header.Set("Authorization", "Bearer "+token)
	return nil
}

func (bearer) Challenged(context.Context, *http.Response, httpclient.Operation) (again bool, err error) {
	return false, nil
}

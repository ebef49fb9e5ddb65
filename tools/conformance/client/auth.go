package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/auth/loopback"
	"github.com/mcpwire/mcpwire/runtime/auth/machine"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
)

// credentials are what a scenario of authorization gives to the client.
type credentials struct {
	ClientID         string `json:"client_id"`
	ClientSecret     string `json:"client_secret"`
	Issuer           string `json:"issuer"`
	PrivateKey       string `json:"private_key_pem"`
	Algorithm        string `json:"signing_algorithm"`
	IDPClientID      string `json:"idp_client_id"`
	IDPIDToken       string `json:"idp_id_token"`
	IDPIssuer        string `json:"idp_issuer"`
	IDPTokenEndpoint string `json:"idp_token_endpoint"`
	WorkloadToken    string `json:"valid_jwt"`
}

// clientIDURL is the client id of the suite's Client ID Metadata Document.
const clientIDURL = "https://conformance-test.local/client-metadata.json"

// newAuthorizer returns the Authorizer for a scenario: one that logs in, or one of a program
// without a user.
func newAuthorizer(scenario string) (*oauth.Authorizer, error) {
	var given credentials
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return nil, err
		}
	}
	client := oauth.Client{ID: given.ClientID, Secret: auth.NewSecret(given.ClientSecret)}
	// trusted returns the client for every issuer: the suite does not tell that of a program
	// without a user in advance.
	trusted := func(context.Context, string) (*oauth.Client, error) { return &client, nil }
	switch name := strings.TrimPrefix(scenario, "auth/"); name {
	case "client-credentials-basic":
		return oauth.New(oauth.Options{Grant: machine.ClientCredentials(), AskClient: trusted})
	case "client-credentials-jwt":
		key, err := machine.ParseKey([]byte(given.PrivateKey), given.Algorithm, "")
		if err != nil {
			return nil, err
		}
		client.Auth = machine.PrivateKeyJWT(key)
		return oauth.New(oauth.Options{Grant: machine.ClientCredentials(), AskClient: trusted})
	case "enterprise-managed-authorization":
		grant := machine.Enterprise(machine.EnterpriseOptions{
			IDP: given.IDPIssuer, TokenEndpoint: given.IDPTokenEndpoint,
			Client:  oauth.Client{Issuer: given.IDPIssuer, ID: given.IDPClientID},
			IDToken: func(context.Context) (auth.Secret, error) { return auth.NewSecret(given.IDPIDToken), nil },
		})
		return oauth.New(oauth.Options{Grant: grant, AskClient: trusted})
	case "wif-jwt-bearer":
		grant := machine.WorkloadIdentity(func(context.Context, string) (auth.Secret, error) {
			return auth.NewSecret(given.WorkloadToken), nil
		})
		return oauth.New(oauth.Options{Grant: grant, AskClient: trusted})
	}
	c := oauth.Options{User: loopback.Callback("http://localhost:3000/callback", browse), ClientIDURL: clientIDURL, Prover: machine.DPoP(nil)}
	if given.ClientID != "" {
		client.Issuer = given.Issuer
		c.Clients = []oauth.Client{client}
	}
	return oauth.New(c)
}

// browse is a browser whose user agrees at once.
func browse(ctx context.Context, address string) (redirect string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	location, err := resp.Location()
	if err != nil {
		return "", fmt.Errorf("status %d of the authorization endpoint: %w", resp.StatusCode, err)
	}
	return location.String(), nil
}

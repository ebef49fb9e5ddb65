package oidclogin_test

import (
	"log"

	"github.com/mcpwire/mcpwire/runtime/auth/loopback"
	"github.com/mcpwire/mcpwire/runtime/auth/machine"
	"github.com/mcpwire/mcpwire/runtime/auth/oauth"
	"github.com/mcpwire/mcpwire/runtime/auth/oidclogin"
)

// The user logs in once, at the identity provider of the enterprise. Each server then gets a token
// for it without another page.
func Example() {
	client := oauth.Client{ID: "assistant"}
	login, err := oidclogin.New(oidclogin.Options{
		Issuer: "https://idp.example.com",
		Client: client,
		User:   loopback.New(nil),
	})
	if err != nil {
		log.Fatal(err)
	}
	var _ oauth.Grant = machine.Enterprise(machine.EnterpriseOptions{ // of oauth.Options
		IDP:           "https://idp.example.com",
		TokenEndpoint: "https://idp.example.com/token",
		Client:        client,
		IDToken:       login.IDToken,
	})
}

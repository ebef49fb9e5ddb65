module github.com/mcpwire/mcpwire/runtime/auth/oidclogin

go 1.26.0

replace github.com/mcpwire/mcpwire => ../../..

require (
	github.com/coreos/go-oidc/v3 v3.21.0
	github.com/mcpwire/mcpwire v0.0.0-00010101000000-000000000000
	golang.org/x/oauth2 v0.37.0
)

require github.com/go-jose/go-jose/v4 v4.1.8

module github.com/mcpwire/mcpwire/runtime/auth/jwtauth

go 1.26.0

replace github.com/mcpwire/mcpwire => ../../..

require (
	github.com/go-jose/go-jose/v4 v4.1.8
	github.com/mcpwire/mcpwire v0.0.0-00010101000000-000000000000
)

require (
	github.com/goccy/go-json v0.12.0 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/time v0.15.0 // indirect
)

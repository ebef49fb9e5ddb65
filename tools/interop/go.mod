module github.com/mcpwire/mcpwire/tools/interop

go 1.26.0

replace github.com/mcpwire/mcpwire => ../..

require (
	github.com/google/go-cmp v0.7.0
	github.com/mcpwire/mcpwire v0.0.0-00010101000000-000000000000
)

require golang.org/x/time v0.15.0 // indirect

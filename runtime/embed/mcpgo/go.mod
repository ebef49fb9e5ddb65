module github.com/mcpwire/mcpwire/runtime/embed/mcpgo

go 1.26.0

replace github.com/mcpwire/mcpwire => ../../..

require (
	github.com/mark3labs/mcp-go v1.2.1
	github.com/mcpwire/mcpwire v0.0.0-00010101000000-000000000000
)

require (
	github.com/goccy/go-json v0.12.0 // indirect
	github.com/google/jsonschema-go v0.4.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/spf13/cast v1.7.1 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.etcd.io/bbolt v1.5.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.14.0 // indirect
	golang.org/x/time v0.15.0 // indirect
)

module github.com/mcpwire/mcpwire/tools/interop

go 1.26.0

replace github.com/mcpwire/mcpwire => ../..

require (
	github.com/google/go-cmp v0.7.0
	github.com/mark3labs/mcp-go v1.2.1
	github.com/mcpwire/mcpwire v0.0.0-00010101000000-000000000000
	github.com/mcpwire/mcpwire/runtime/task/jetstream v0.0.0-00010101000000-000000000000
	github.com/modelcontextprotocol/go-sdk v1.8.0
	github.com/nats-io/nats.go v1.55.0
)

require (
	github.com/antithesishq/antithesis-sdk-go v0.8.0-default-no-op // indirect
	github.com/go-jose/go-jose/v4 v4.1.8 // indirect
	github.com/google/go-tpm v0.9.8 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/minio/highwayhash v1.0.4 // indirect
	github.com/nats-io/jwt/v2 v2.8.2 // indirect
	github.com/nats-io/nats-server/v2 v2.15.2 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
)

require (
	github.com/goccy/go-json v0.12.0 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/mcpwire/mcpwire/runtime/auth/jwtauth v0.0.0-00010101000000-000000000000
	github.com/mcpwire/mcpwire/runtime/embed/gosdk v0.0.0-00010101000000-000000000000
	github.com/mcpwire/mcpwire/runtime/embed/mcpgo v0.0.0-00010101000000-000000000000
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/spf13/cast v1.7.1 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/oauth2 v0.35.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.16.0 // indirect
)

replace github.com/mcpwire/mcpwire/runtime/auth/jwtauth => ../../runtime/auth/jwtauth

replace github.com/mcpwire/mcpwire/runtime/embed/gosdk => ../../runtime/embed/gosdk

replace github.com/mcpwire/mcpwire/runtime/embed/mcpgo => ../../runtime/embed/mcpgo

replace github.com/mcpwire/mcpwire/runtime/task/jetstream => ../../runtime/task/jetstream

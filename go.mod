module github.com/mcpwire/mcpwire

go 1.26

require github.com/atombender/go-jsonschema v0.24.1

require (
	dario.cat/mergo v1.0.2 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
)

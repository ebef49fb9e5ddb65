// Package mcpwire is the root of the module and holds no code: see packages mcp, codec and
// gen.
package mcpwire

//go:generate go run ./tools/generate
//go:generate go run ./tools/requirements
//go:generate go run ./tools/screencast

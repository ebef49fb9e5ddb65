package main

import (
	"bytes"

	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// role is the category in which a contestant is compared.
type role int

const (
	roleOurs    role = iota
	roleVariant      // another way to use mcpwire; shown but not compared
	roleSDK          // a library for the protocol
	roleEngine       // a general JSON engine, used as in the first example of its documentation
	roleTuned        // a general JSON engine with its fastest options
	roleScan         // reads without decoding: the limit
)

// contestant is one way to decode and encode messages.
type contestant struct {
	name   string // in tables and in the names of benchmarks
	module string // its module; "" for the standard library and this repository
	role   role
	enter  func(m messages.Message) (entry, error)
}

// contestants returns all contestants in the order of the tables.
func contestants() []contestant {
	return []contestant{
		{"mcpwire", "", roleOurs, enterMCPWire},
		{"mcpwire-marshal", "", roleVariant, enterMCPWireMarshal},
		{"mcpwire-nocopy", "", roleVariant, enterMCPWireNoCopy},
		{"mcpwire-parts", "", roleVariant, enterMCPWireParts},
		{"go-sdk", "github.com/modelcontextprotocol/go-sdk", roleSDK, enterOfficial},
		{"mcp-go", "github.com/mark3labs/mcp-go", roleSDK, enterMCPGo},
		{"encoding-json", "", roleEngine, standard.enter},
		{"json-experiment", "github.com/go-json-experiment/json", roleEngine, experiment.enter},
		{"goccy", "github.com/goccy/go-json", roleEngine, goccy.enter},
		{"goccy-tuned", "github.com/goccy/go-json", roleTuned, goccyTuned.enter},
		{"sonic", "github.com/bytedance/sonic", roleEngine, sonicStandard.enter},
		{"sonic-tuned", "github.com/bytedance/sonic", roleTuned, sonicTuned.enter},
		{"jx-skip", "github.com/go-faster/jx", roleScan, enterScan},
	}
}

// entry holds the operations of a contestant for one message. An operation is nil if the contestant
// does not support it or does it like another contestant.
type entry struct {
	envelope func() error // decodes the message but keeps the payload raw
	decode   func() error // decodes the message and the payload into typed values
	encode   func() error // encodes such values

	// again decodes a copy of the message, overwrites the copy if requested, and encodes the
	// decoded value. It calls the same functions as decode and encode, so that a test of it also
	// tests them.
	again func(spoil bool) ([]byte, error)
}

// operation is a measured operation.
type operation struct {
	name string
	of   func(e entry) func() error
}

func operations() []operation {
	return []operation{
		{"decode", func(e entry) func() error { return e.decode }},
		{"envelope", func(e entry) func() error { return e.envelope }},
		{"encode", func(e entry) func() error { return e.encode }},
	}
}

// enter returns the entry of a contestant that decodes a message into an envelope and a value, and
// encodes these. It fails if the message cannot be decoded.
func enter[E any](m messages.Message, decode func(text []byte) (E, any, error), encode func(envelope *E, value any) ([]byte, error)) (entry, error) {
	envelope, value, err := decode(m.Data)
	if err != nil {
		return entry{}, err
	}
	var kept struct { // forces the values to the heap, as for most users
		value any
		text  []byte
	}
	return entry{
		decode: func() error {
			_, v, err := decode(m.Data)
			kept.value = v
			return err
		},
		encode: func() error {
			text, err := encode(&envelope, value)
			kept.text = text
			return err
		},
		again: func(spoil bool) ([]byte, error) {
			text := bytes.Clone(m.Data)
			envelope, value, err := decode(text)
			if err != nil {
				return nil, err
			}
			if spoil {
				clear(text)
			}
			return encode(&envelope, value)
		},
	}, nil
}

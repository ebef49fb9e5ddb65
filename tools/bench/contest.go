package main

import "bytes"

// role says what a contestant is compared as.
type role int

const (
	roleOurs    role = iota
	roleVariant      // another way to use ours: shown, not compared
	roleSDK          // a library for the protocol
	roleEngine       // a general JSON engine, used as its documentation shows first
	roleTuned        // the same, used as fast as it can be used
	roleScan         // reads without decoding: the ceiling
)

// contestant is one way to decode and encode messages.
type contestant struct {
	name   string // in tables and in the names of benchmarks
	module string // where it comes from; "" is the standard library or this repository
	role   role
	enter  func(m message) (entry, error)
}

// contestants returns all of them, in the order of the tables.
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

// entry is what a contestant does with one message. What it cannot do, or does just as another one, is nil.
type entry struct {
	envelope func() error // reads the message but leaves the payload raw
	decode   func() error // reads the message and the payload into typed values
	encode   func() error // writes such values

	// again decodes a copy of the message, spoils that if asked to, and encodes what was decoded. It runs the
	// functions that decode and encode run, so that a test of it shows that they do their work.
	again func(spoil bool) ([]byte, error)
}

// operation is one of the things that are measured.
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

// enter makes the entry of a contestant that decodes a message into an envelope and a value, and encodes these.
// It fails if the message cannot be decoded.
func enter[E any](m message, decode func(text []byte) (E, any, error), encode func(envelope *E, value any) ([]byte, error)) (entry, error) {
	envelope, value, err := decode(m.data)
	if err != nil {
		return entry{}, err
	}
	var kept struct { // so that all of it has to be on the heap, as it is for most users
		value any
		text  []byte
	}
	return entry{
		decode: func() error {
			_, v, err := decode(m.data)
			kept.value = v
			return err
		},
		encode: func() error {
			text, err := encode(&envelope, value)
			kept.text = text
			return err
		},
		again: func(spoil bool) ([]byte, error) {
			text := bytes.Clone(m.data)
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

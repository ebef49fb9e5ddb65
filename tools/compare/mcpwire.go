package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/tools/compare/probe"
)

func mcpwire() Peer {
	return Peer{
		Name:   "mcpwire",
		Module: "github.com/mcpwire/mcpwire",
		How: "Messages use `jsonrpc.Parse`, batches `jsonrpc.ParseBatch`, params `mcp.DecodeParams` and results `mcp.DecodeResult` with their " +
			"method, errors with code -32042 `jsonrpc.Parse` and the type of their data, and everything else `mcp.New`. Documents that must be refused are also checked by `Validate` with their revision, " +
			"because decoding alone is lenient as long as it loses nothing.",
		Attempt: func(in Input) probe.Trial {
			return probe.Run([]byte(in.Doc), in.Subject,
				func(doc []byte) (any, error) { return decodeMCPWire(in, doc) },
				encodeMCPWire)
		},
	}
}

// decodeMCPWire decodes doc and, if it must be refused, validates it.
func decodeMCPWire(in Input, doc []byte) (any, error) {
	var v mcp.Value
	var err error
	switch {
	case in.Def == "JSONRPCBatch":
		return parseBatch(doc)
	case strings.HasPrefix(in.Def, "JSONRPC"):
		m, err := jsonrpc.Parse(doc)
		return &m, err
	case in.Def == "URLElicitationRequiredError":
		return parseURLError(doc)
	case in.Method != "" && strings.HasSuffix(in.Def, "Params"):
		v, err = mcp.DecodeParams(in.Method, doc)
	case in.Method != "":
		v, err = mcp.DecodeResult(in.Method, doc)
	default:
		if v = mcp.New(in.Def); v == nil {
			return nil, fmt.Errorf("no definition %s", in.Def)
		}
		err = codec.Unmarshal(doc, v)
	}
	if err != nil || in.Want != Refuse {
		return v, err
	}
	return v, v.Validate(mcp.Revision(in.Rev))
}

func encodeMCPWire(v any) ([]byte, error) {
	if e, ok := v.(*urlError); ok {
		var err error
		if e.message.Error.Data, err = codec.Marshal(&e.Error.Data); err != nil {
			return nil, err
		}
		return codec.Marshal(&e.message)
	}
	return codec.Marshal(v.(codec.Encoder))
}

// urlError is an error whose data is decoded like in package client.
type urlError struct {
	message jsonrpc.Message
	Error   struct {
		Data mcp.URLElicitationRequiredErrorData `json:"data"`
	} `json:"error"`
}

func parseURLError(doc []byte) (any, error) {
	m, err := jsonrpc.Parse(doc)
	if err != nil {
		return nil, err
	}
	if m.Error == nil || m.Error.Code != -32042 {
		return nil, errors.New("not error -32042")
	}
	e := &urlError{message: m}
	return e, codec.Unmarshal(m.Error.Data, &e.Error.Data)
}

// batch holds the messages of a batch.
type batch []jsonrpc.Message

// EncodeJSON writes the batch.
func (b batch) EncodeJSON(w *wire.Writer) { wire.EncodeList(w, b) }

// parseBatch parses a batch. It fails if one of the elements is invalid.
func parseBatch(doc []byte) (any, error) {
	items, err := jsonrpc.ParseBatch(doc)
	var b batch
	for _, item := range items {
		if item.Err != nil {
			return nil, item.Err
		}
		b = append(b, item.Message)
	}
	return b, err
}

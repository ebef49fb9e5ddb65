package main

import (
	"fmt"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/tools/compare/probe"
)

func mcpwire() Peer {
	return Peer{
		Name:   "mcpwire",
		Module: "github.com/mcpwire/mcpwire",
		How: "Messages with `jsonrpc.Parse`, params with `mcp.DecodeParams` and results with `mcp.DecodeResult`, by their method, " +
			"batches with `jsonrpc.ParseBatch`, anything else with `mcp.New`. What must be refused is also given to `Validate` " +
			"with its revision: decoding alone is lenient where nothing is lost by it.",
		Attempt: func(in Input) probe.Trial {
			return probe.Run([]byte(in.Doc), in.Subject,
				func(doc []byte) (any, error) { return decodeMCPWire(in, doc) },
				func(v any) ([]byte, error) { return codec.Marshal(v.(codec.Encoder)) })
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

// batch is the messages of a batch.
type batch []jsonrpc.Message

// EncodeJSON writes the batch.
func (b batch) EncodeJSON(w *codec.Writer) { codec.EncodeList(w, b) }

// parseBatch parses a batch; one element that is wrong is an error.
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

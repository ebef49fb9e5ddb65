package main

import (
	"encoding/json"

	"github.com/bytedance/sonic"
	"github.com/go-faster/jx"
	experimentjson "github.com/go-json-experiment/json"
	goccyjson "github.com/goccy/go-json"

	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// engine is a general JSON engine with one configuration.
type engine struct {
	unmarshal func(text []byte, v any) error
	marshal   func(v any) ([]byte, error)
	flat      bool // decode into the types of flat.go
}

// Each engine with the functions of the first example in its documentation, and the two fastest
// also tuned.
var (
	standard = engine{unmarshal: json.Unmarshal, marshal: json.Marshal}

	experiment = engine{
		unmarshal: func(text []byte, v any) error { return experimentjson.Unmarshal(text, v) },
		marshal:   func(v any) ([]byte, error) { return experimentjson.Marshal(v) },
	}

	goccy = engine{
		unmarshal: func(text []byte, v any) error { return goccyjson.Unmarshal(text, v) },
		marshal:   func(v any) ([]byte, error) { return goccyjson.Marshal(v) },
	}
	goccyTuned = engine{
		unmarshal: goccy.unmarshal,
		marshal:   func(v any) ([]byte, error) { return goccyjson.MarshalWithOption(v, goccyjson.DisableHTMLEscape()) },
		flat:      true,
	}

	// The standard configuration validates. The default one accepts strings with control characters
	// and bytes that are not UTF-8.
	sonicStandard = engine{unmarshal: sonic.ConfigStd.Unmarshal, marshal: sonic.ConfigStd.Marshal}
	// This is the part of the standard configuration that validates. Strings share one copy of the
	// text.
	sonicLean  = sonic.Config{ValidateString: true}.Froze()
	sonicTuned = engine{unmarshal: sonicLean.Unmarshal, marshal: sonicLean.Marshal, flat: true}
)

// enter decodes in two passes, the envelope first, and encodes in one.
func (e engine) enter(m messages.Message) (entry, error) {
	payload := decodePlain(m, e.flat)
	if m.Form == messages.BareTask {
		return enter(m, func(text []byte) (envelope struct{}, value any, err error) {
			value, err = payload(e, text)
			return envelope, value, err
		}, func(_ *struct{}, value any) ([]byte, error) {
			return e.marshal(value)
		})
	}
	entry, err := enter(m, func(text []byte) (plainMessage, any, error) {
		var envelope plainMessage
		if err := e.unmarshal(text, &envelope); err != nil {
			return envelope, nil, err
		}
		raw := envelope.Params
		if m.Form == messages.Response {
			raw = envelope.Result
		}
		value, err := payload(e, raw)
		return envelope, value, err
	}, func(envelope *plainMessage, value any) ([]byte, error) {
		typed := plainTyped{JSONRPC: envelope.JSONRPC, ID: envelope.ID, Method: envelope.Method}
		if m.Form == messages.Response {
			typed.Result = value
		} else {
			typed.Params = value
		}
		return e.marshal(&typed)
	})
	entry.envelope = func() error {
		var envelope plainMessage
		return e.unmarshal(m.Data, &envelope)
	}
	return entry, err
}

// enterScan checks the grammar of the text and keeps nothing.
func enterScan(m messages.Message) (entry, error) {
	d := jx.DecodeBytes(m.Data)
	skip := func() error {
		d.ResetBytes(m.Data)
		return d.Skip()
	}
	e := entry{decode: skip, envelope: skip}
	if m.Form == messages.BareTask {
		e.envelope = nil
	}
	return e, skip()
}

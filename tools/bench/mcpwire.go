package main

import (
	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// enterMCPWire decodes a message and its payload with one call, and encodes both into a reused
// buffer.
func enterMCPWire(m messages.Message) (entry, error) {
	var buf []byte
	if m.Form == messages.BareTask {
		return enter(m, decodeTask, func(_ *struct{}, value any) ([]byte, error) {
			var err error
			buf, err = codec.Append(buf[:0], value.(*mcp.Task))
			return buf, err
		})
	}
	e, err := enter(m, decodeMessage(m), func(envelope *jsonrpc.Message, _ any) ([]byte, error) {
		var err error
		buf, err = envelope.AppendJSON(buf[:0])
		return buf, err
	})
	e.envelope = func() error {
		_, err := jsonrpc.Parse(m.Data, codec.NoCopy())
		return err
	}
	return e, err
}

// enterMCPWireMarshal encodes into a new buffer each time.
func enterMCPWireMarshal(m messages.Message) (entry, error) {
	var e entry
	var err error
	if m.Form == messages.BareTask {
		e, err = enter(m, decodeTask, func(_ *struct{}, value any) ([]byte, error) { return codec.Marshal(value.(*mcp.Task)) })
	} else {
		e, err = enter(m, decodeMessage(m), func(envelope *jsonrpc.Message, _ any) ([]byte, error) { return codec.Marshal(envelope) })
	}
	e.decode = nil
	return e, err
}

// enterMCPWireNoCopy lets raw values share memory with the text, as a gateway may do.
func enterMCPWireNoCopy(m messages.Message) (entry, error) {
	if m.Form == messages.BareTask { // it has no raw values
		return entry{}, nil
	}
	e, err := enter(m, decodeMessage(m, codec.NoCopy()), func(envelope *jsonrpc.Message, _ any) ([]byte, error) {
		return codec.Marshal(envelope)
	})
	e.encode = nil
	return e, err
}

// enterMCPWireParts decodes the envelope and then the payload, and encodes the payload and then the
// envelope. Callers can inspect the envelope in between.
func enterMCPWireParts(m messages.Message) (entry, error) {
	if m.Form == messages.BareTask {
		return entry{}, nil
	}
	var inner, outer []byte
	return enter(m, func(text []byte) (jsonrpc.Message, any, error) {
		envelope, err := jsonrpc.Parse(text)
		if err != nil {
			return envelope, nil, err
		}
		var value mcp.Value
		if m.Form == messages.Response {
			value, err = mcp.DecodeResult(m.Method, envelope.Result)
		} else {
			value, err = mcp.DecodeParams(envelope.Method, envelope.Params)
		}
		return envelope, value, err
	}, func(envelope *jsonrpc.Message, value any) ([]byte, error) {
		var err error
		if inner, err = codec.Append(inner[:0], value.(mcp.Value)); err != nil {
			return nil, err
		}
		if m.Form == messages.Response {
			envelope.Result = inner
		} else {
			envelope.Params = inner
		}
		outer, err = envelope.AppendJSON(outer[:0])
		return outer, err
	})
}

func decodeTask(text []byte) (envelope struct{}, value any, err error) {
	task := new(mcp.Task)
	return envelope, task, codec.Unmarshal(text, task)
}

// decodeMessage returns the function that decodes messages like m.
func decodeMessage(m messages.Message, opts ...codec.Option) func(text []byte) (jsonrpc.Message, any, error) {
	if m.Form == messages.Response {
		return func(text []byte) (jsonrpc.Message, any, error) {
			v, err := mcp.DecodeResponse(m.Method, text, opts...)
			return v, v.Payload, err
		}
	}
	return func(text []byte) (jsonrpc.Message, any, error) {
		v, err := mcp.DecodeRequest(text, opts...)
		return v, v.Payload, err
	}
}

package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

var errResult = errors.New("the result is not an object")

// encodeResult encodes the answer to a request: the result, or an empty object if that is nil.
func encodeResult(id jsonrpc.ID, result codec.Encoder) (text []byte, err error) {
	return boundary.MarshalFunc(func(w *wire.Writer) {
		w.WholeMessage()
		w.Begin()
		w.Key(`,"jsonrpc":`)
		w.Lit(`"2.0"`)
		w.Key(`,"id":`)
		id.EncodeJSON(w)
		w.Key(`,"result":`)
		if result == nil {
			w.Lit("{}")
		} else {
			writeObject(w, "result", result, errResult)
		}
		w.End()
	})
}

// encodeOutcome encodes the answer to a request that was served. failed is the error in it, or nil
// if it is a result. encodeOutcome logs panics, and a result that cannot be encoded.
func encodeOutcome(log *slog.Logger, req *Request, result codec.Encoder, err error) (text []byte, failed *jsonrpc.Error) {
	if err == nil {
		if text, err = encodeResult(req.ID, result); err == nil {
			return text, nil
		}
		if !boundary.Report(log, "result panicked", err, "method", req.Method) {
			log.Error("result not encoded", "method", req.Method, "error", err)
		}
		err = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the result cannot be encoded"}
	}
	boundary.Report(log, "handler panicked", err, "method", req.Method)
	failed = wireError(req.Traits(), err)
	return engine.EncodeError(req.ID, failed), failed
}

// refusal returns the answer to a message that the transport has rejected. It has the id of the
// request if that could be read.
func refusal(err *transport.MessageError) []byte {
	cause := &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "parse error: " + boundary.ErrorText(err)}
	if !err.ID.IsZero() {
		cause = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "invalid request: " + boundary.ErrorText(err.Err)}
	}
	return engine.EncodeError(err.ID, cause)
}

// Raw is a JSON text as a [codec.Encoder]. It is written byte for byte, unless it has line breaks
// outside of strings: then white space is removed.
type Raw json.RawMessage

// EncodeJSON validates and writes the text.
func (r Raw) EncodeJSON(w *wire.Writer) { w.Raw(json.RawMessage(r)) }

// encodeCall encodes a request, or a notification if id is zero. It adds meta and, unless it is
// nil, request to the _meta of the params. If it does so without decoding them, it also returns the
// params as they are in the text, because transports over HTTP read them; otherwise nil.
func encodeCall(id jsonrpc.ID, method string, params codec.Encoder, meta []methods.MetaMember, request *requestMeta) (text []byte, encoded json.RawMessage, err error) {
	if request == nil && len(meta) > 0 {
		request = noRequestMeta
	}
	if request != nil {
		if text, encoded = request.encode(id, method, params, meta); encoded != nil {
			return text, encoded, nil
		}
		meta = request.with(meta)
	}
	if len(meta) > 0 {
		var raw []byte
		if params != nil {
			var err error
			if raw, err = boundary.Marshal(params); err != nil {
				return nil, nil, err
			}
		}
		raw, err := methods.AddMetaMembers(raw, meta)
		if err != nil {
			return nil, nil, err
		}
		params = Raw(raw)
	}
	text, err = boundary.MarshalFunc(func(w *wire.Writer) {
		beginCall(w, id, method)
		if params != nil {
			w.Key(`,"params":`)
			writeObject(w, "params", params, jsonfault.Params)
		}
		w.End()
	})
	return text, nil, err
}

// beginCall writes a request or a notification up to its params.
func beginCall(w *wire.Writer, id jsonrpc.ID, method string) {
	w.WholeMessage()
	w.Begin()
	w.Key(`,"jsonrpc":`)
	w.Lit(`"2.0"`)
	if !id.IsZero() {
		w.Key(`,"id":`)
		id.EncodeJSON(w)
	}
	w.Key(`,"method":`)
	w.Text(method)
}

// writeObject writes v as the member name. It fails with fault if v is not an object, or if a key
// in its _meta must not be sent. It does not check the keys of raw text, which may come from a
// third party.
func writeObject(w *wire.Writer, name string, v codec.Encoder, fault error) {
	at := len(w.Bytes())
	v.EncodeJSON(w)
	b := w.Bytes()
	if len(b) <= at || b[at] != '{' {
		w.Fail(name, fault)
		return
	}
	if _, raw := v.(Raw); raw || !bytes.HasPrefix(b[at:], metaFirst) {
		return
	}
	if err := methods.CheckMetaKeys(b[at+len(metaFirst):]); err != nil {
		w.Fail(name, err)
	}
}

// metaFirst is how values with a _meta begin: the members of generated types are sorted.
var metaFirst = []byte(`{"_meta":`)

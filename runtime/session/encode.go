package session

import (
	"errors"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
)

var errResult = errors.New("the result is not an object")

// encodeAnswer returns the answer to a request as text: the error if there is one, else the result, which is empty
// if it is nil. ok says that it is a result.
func encodeAnswer(id jsonrpc.ID, result codec.Encoder, err error) (text []byte, ok bool, encodeErr error) {
	if err == nil {
		text, encodeErr = codec.Marshal(encoderFunc(func(w *codec.Writer) {
			start := w.Begin()
			w.Key(`,"jsonrpc":`)
			w.Lit(`"2.0"`)
			w.Key(`,"id":`)
			w.Scalar(id)
			w.Key(`,"result":`)
			if result == nil {
				w.Lit("{}")
			} else {
				writeObject(w, "result", result, errResult)
			}
			w.End(start, codec.Extra{})
		}))
		return text, encodeErr == nil, encodeErr
	}
	message := jsonrpc.NewErrorResponse(id, wireError(err))
	text, encodeErr = codec.Marshal(&message)
	if encodeErr != nil { // a text that is not UTF-8, or data that is no JSON
		message.Error = &jsonrpc.Error{Code: message.Error.Code, Message: "error that cannot be written"}
		text, encodeErr = codec.Marshal(&message)
	}
	return text, false, encodeErr
}

// wireError is err as it goes to the peer.
func wireError(err error) *jsonrpc.Error {
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && e != nil {
		return e
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeOf(err), Message: err.Error()}
}

// parseError answers text that is no message at all.
func parseError(err error) []byte {
	text, _, _ := encodeAnswer(jsonrpc.ID{}, nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "parse error: " + err.Error()})
	return text
}

// encodeCall returns a request, or with the zero ID a notification, as text.
func encodeCall(id jsonrpc.ID, method string, params codec.Encoder, meta []metaMember) ([]byte, error) {
	if len(meta) > 0 {
		var raw []byte
		if params != nil {
			var err error
			if raw, err = codec.Marshal(params); err != nil {
				return nil, err
			}
		}
		raw, err := addMeta(raw, meta)
		if err != nil {
			return nil, err
		}
		params = Raw(raw)
	}
	return codec.Marshal(encoderFunc(func(w *codec.Writer) {
		start := w.Begin()
		w.Key(`,"jsonrpc":`)
		w.Lit(`"2.0"`)
		if !id.IsZero() {
			w.Key(`,"id":`)
			w.Scalar(id)
		}
		w.Key(`,"method":`)
		w.Text(method)
		if params != nil {
			w.Key(`,"params":`)
			writeObject(w, "params", params, jsonrpc.ErrParams)
		}
		w.End(start, codec.Extra{})
	}))
}

// writeObject writes v as the member name, and fails with fault if it is no object.
func writeObject(w *codec.Writer, name string, v codec.Encoder, fault error) {
	at := len(w.Bytes())
	v.EncodeJSON(w)
	if b := w.Bytes(); len(b) <= at || b[at] != '{' {
		w.Fail(name, fault)
	}
}

package jsonrpc

import (
	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// EncodeJSON writes the message. It fails with the error that [Parse] would return for the result
// if a member that the kind requires is missing, or if a field of another kind is set.
func (m *Message) EncodeJSON(w *wire.Writer) {
	w.WholeMessage()
	start := w.Begin()
	w.Key(`,"jsonrpc":`)
	w.Lit(`"2.0"`)
	m.check(w)
	if !m.ID.IsZero() {
		w.Key(`,"id":`)
		m.ID.EncodeJSON(w)
	}
	switch m.Kind {
	case KindRequest, KindNotification:
		w.Key(`,"method":`)
		w.Text(m.Method)
		if m.Payload != nil {
			w.Key(`,"params":`)
			m.Payload.EncodeJSON(w)
		} else if len(m.Params) > 0 {
			w.Key(`,"params":`)
			w.RawObject(m.Params)
		}
	case KindResponse:
		w.Key(`,"result":`)
		if m.Payload != nil {
			m.Payload.EncodeJSON(w)
		} else {
			w.RawObject(m.Result)
		}
	case KindErrorResponse:
		w.Key(`,"error":`)
		m.Error.EncodeJSON(w)
	}
	w.EndExtra(start, m.Extra, &members)
}

// check makes w fail unless the fields fit the kind.
func (m *Message) check(w *wire.Writer) {
	switch id := m.ID.Kind(); {
	case id&^(wire.ScalarString|wire.ScalarInteger) != 0:
		w.Fail("id", jsonfault.ID)
	case id == 0 && (m.Kind == KindRequest || m.Kind == KindResponse):
		w.Fail("id", jsonfault.NoID)
	case id != 0 && m.Kind == KindNotification:
		w.Fail("id", jsonfault.Mixed)
	}
	call := m.Kind == KindRequest || m.Kind == KindNotification
	switch {
	case m.Kind == KindInvalid || m.Kind > KindErrorResponse:
		w.Fail("", jsonfault.Neither)
	case !call && m.Method != "":
		w.Fail("method", jsonfault.Mixed)
	case !call && len(m.Params) > 0:
		w.Fail("params", jsonfault.Mixed)
	case m.Kind != KindResponse && len(m.Result) > 0:
		w.Fail("result", jsonfault.Mixed)
	case m.Kind == KindResponse && len(m.Result) == 0 && m.Payload == nil:
		w.Fail("result", codec.ErrNoValue)
	case m.Kind != KindErrorResponse && m.Error != nil:
		w.Fail("error", jsonfault.Mixed)
	case m.Kind == KindErrorResponse && m.Error == nil:
		w.Fail("error", codec.ErrNoValue)
	}
	if m.Payload != nil {
		switch {
		case len(m.Params) > 0:
			w.Fail("params", jsonfault.Mixed)
		case len(m.Result) > 0:
			w.Fail("result", jsonfault.Mixed)
		case m.Kind == KindErrorResponse:
			w.Fail("error", jsonfault.Mixed)
		}
	}
	if m.Extra.Len() == 0 {
		return
	}
	for _, name := range [...]string{"id", "method", "params", "result", "error"} {
		value, ok := m.Extra.Get(name)
		kept := name == "params" && !call || name == "id" && m.Kind == KindErrorResponse && string(value) == "null"
		if ok && !kept {
			w.Fail(name, jsonfault.Mixed)
		}
	}
}

// EncodeJSON writes the error object.
func (e *Error) EncodeJSON(w *wire.Writer) {
	if e == nil {
		w.Fail("", codec.ErrNoValue)
		return
	}
	start := w.Begin()
	w.Key(`,"code":`)
	w.IntExact(e.Code, e.Extra, "code")
	w.Key(`,"message":`)
	w.Text(e.Message)
	if len(e.Data) > 0 {
		w.Key(`,"data":`)
		w.Raw(e.Data)
	}
	w.EndExtra(start, e.Extra, &errorMembers)
}

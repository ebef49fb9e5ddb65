package roundtrip

import (
	"encoding/json"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// message is a JSON-RPC message. Its params or its result have a Go type, the rest is raw.
type message struct {
	payload codec.Value // nil if there is none
	rest    wire.Extra

	member string // "params" or "result"
	method string
	read   func(r *wire.Reader, method string) codec.Value
}

// newMessage returns a message for a request, a notification or a response that doc defines, or nil
// for any other definition.
func (p Package) newMessage(doc *load.Document, definition string) codec.Value {
	m := &message{member: "params", read: p.Params}
	if stem, ok := strings.CutSuffix(definition, "ResultResponse"); ok {
		m.member, m.read, definition = "result", p.Result, stem+"Request"
	}
	s := doc.Defs[definition]
	if s == nil || s.Property("method") == nil || s.Property("method").Const == nil {
		return nil
	}
	if err := json.Unmarshal(s.Property("method").Const, &m.method); err != nil {
		return nil
	}
	return m
}

func (m *message) DecodeJSON(r *wire.Reader) {
	m.payload, m.rest = nil, wire.Extra{}
	r.Object()
	for name, ok := r.NextKey(); ok; name, ok = r.NextKey() {
		if string(name) == m.member {
			if m.payload = m.read(r, m.method); m.payload != nil {
				continue
			}
		}
		r.Extra(&m.rest)
	}
}

func (m *message) EncodeJSON(w *wire.Writer) {
	start := w.Begin()
	if m.payload != nil {
		w.Key(`,"` + m.member + `":`)
		m.payload.EncodeJSON(w)
	}
	w.EndExtra(start, m.rest, nil)
}

func (m *message) MarshalJSON() ([]byte, error)    { return codec.Marshal(m) }
func (m *message) UnmarshalJSON(data []byte) error { return codec.Unmarshal(data, m) }

func (m *message) Equal(n *message) bool {
	return gocmp.Equal(m.payload, n.payload) && m.rest.Equal(n.rest)
}

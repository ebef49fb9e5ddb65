package otel

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/methods"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// maxField is the maximum length in bytes of a field of a peer; longer fields are ignored. It is
// the limit of W3C Baggage.
const maxField = 8192

// outgoing is a carrier that writes the _meta of a message.
type outgoing struct{ call *session.Call }

// Get implements [propagation.TextMapCarrier]. Injecting does not need it.
func (outgoing) Get(string) string { return "" }

// Set implements [propagation.TextMapCarrier].
func (o outgoing) Set(key, value string) {
	if methods.CheckMetaKey(key) == nil {
		o.call.SetMeta(key, codec.StringScalar(value))
	}
}

// Keys implements [propagation.TextMapCarrier].
func (outgoing) Keys() []string { return nil }

// incoming is a carrier with the fields of a received message, and memory for the beginning of its
// span. It is used again for later messages, mostly of the same kind.
type incoming struct {
	names  []string // of the propagator
	raw    [][]byte // as JSON, in the same order; nil if the message does not have the field
	values []string // in the same order; "" if the message does not have the field

	entry   *entry                                     // whose attributes attrs begins with; nil for none
	attrs   [maxAttributes]attribute.KeyValue          // the span copies them
	used    int                                        // the number of attributes in attrs
	options [maxAttributes + 1][]trace.SpanStartOption // by the number of attributes; nil if not used yet
}

// maxAttributes is not less than the number of attributes that a span of a received message begins
// with: up to eight of an entry, and four of [single].
const maxAttributes = 12

// name returns text(raw), without a copy of the name that the message before had.
func (i *incoming) name(raw []byte) string {
	if i.entry != nil && len(raw) == len(i.entry.kind.target)+2 && raw[0] == '"' &&
		string(raw[1:len(raw)-1]) == i.entry.kind.target && bytes.IndexByte(raw, '\\') < 0 {
		return i.entry.kind.target
	}
	return text(raw)
}

// begin returns the options for the span of a message. They are valid until i is released.
func (i *incoming) begin(e *entry, id jsonrpc.ID, uri, address string) []trace.SpanStartOption {
	if i.entry != e {
		copy(i.attrs[:], e.attrs)
		i.entry = e
	}
	i.used = len(single(i.attrs[:len(e.attrs)], id, uri, address))
	n := i.used
	if i.options[n] == nil {
		i.options[n] = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(i.attrs[:n]...)}
	}
	return i.options[n]
}

var _ propagation.TextMapCarrier = (*incoming)(nil)

// Get implements [propagation.TextMapCarrier].
func (i *incoming) Get(key string) string {
	for n, name := range i.names {
		if name == key {
			return i.values[n]
		}
	}
	return ""
}

// Set implements [propagation.TextMapCarrier]. Extracting does not need it.
func (*incoming) Set(string, string) {}

// Keys implements [propagation.TextMapCarrier].
func (i *incoming) Keys() (keys []string) {
	for n, value := range i.values {
		if value != "" {
			keys = append(keys, i.names[n])
		}
	}
	return keys
}

// carriers returns a pool of *incoming for the fields of a propagator.
func carriers(names []string) *sync.Pool {
	return &sync.Pool{New: func() any {
		return &incoming{names: names, raw: make([][]byte, len(names)), values: make([]string, len(names))}
	}}
}

// release returns i to the pool, without references to the message.
func (t *Telemetry) release(i *incoming) {
	clear(i.raw)
	clear(i.values)
	if i.entry != nil {
		clear(i.attrs[len(i.entry.attrs):i.used])
	}
	t.carriers.Put(i)
}

// read sets the fields that are in a _meta, and reports whether there are any.
func (i *incoming) read(meta json.RawMessage) (found bool) {
	codec.ReadPart(meta, func(r *wire.Reader) { r.PeekRaws(i.names, i.raw) })
	for n, raw := range i.raw {
		if raw != nil && len(raw) <= maxField {
			i.values[n] = text(raw)
			found = found || i.values[n] != ""
		}
	}
	return found
}

// text returns the string that a part of a message is, or "" if it is something else.
func text(raw []byte) (s string) {
	switch {
	case len(raw) < 2 || raw[0] != '"':
		return ""
	case bytes.IndexByte(raw, '\\') < 0:
		return string(raw[1 : len(raw)-1])
	}
	codec.ReadPart(raw, func(r *wire.Reader) { s = r.Text() })
	return s
}

// extract returns ctx with what the sender of a message has put into its _meta, which i reads. The
// span context of the sender, if there is one, replaces that of ctx, which is returned as ambient.
func (t *Telemetry) extract(ctx context.Context, i *incoming, meta json.RawMessage) (remote context.Context, ambient trace.SpanContext) {
	if meta == nil || !i.read(meta) {
		return ctx, ambient
	}
	before := trace.SpanContextFromContext(ctx)
	ctx = t.propagator.Extract(ctx, i)
	if before.IsValid() && !before.Equal(trace.SpanContextFromContext(ctx)) {
		ambient = before
	}
	return ctx, ambient
}

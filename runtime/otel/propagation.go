package otel

import (
	"context"
	"encoding/json"
	"sync"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// maxField is the length in bytes up to which a field of a peer is used. It is the limit of W3C
// Baggage.
const maxField = 8192

// outgoing is a carrier that writes the _meta of a message.
type outgoing struct{ call *session.Call }

// Get implements [propagation.TextMapCarrier]. Injecting does not need it.
func (outgoing) Get(string) string { return "" }

// Set implements [propagation.TextMapCarrier].
func (o outgoing) Set(key, value string) {
	if session.CheckMetaKey(key) == nil {
		o.call.SetMeta(key, codec.StringScalar(value))
	}
}

// Keys implements [propagation.TextMapCarrier].
func (outgoing) Keys() []string { return nil }

// incoming is a carrier with the fields of a received message.
type incoming struct {
	names  []string // of the propagator
	values []string // in the same order; "" if the message does not have the field
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
	return &sync.Pool{New: func() any { return &incoming{names, make([]string, len(names))} }}
}

// read sets the fields that are in a _meta, and reports whether there are any.
func (i *incoming) read(meta json.RawMessage) (found bool) {
	clear(i.values)
	codec.ReadPart(meta, func(r *wire.Reader) {
		r.Object()
		for key, more := r.NextKey(); more; key, more = r.NextKey() {
			n := 0
			for n < len(i.names) && i.names[n] != string(key) {
				n++
			}
			if n == len(i.names) || r.Kind() != wire.KindString {
				r.Skip()
				continue
			}
			if text := r.Text(); len(text) <= maxField {
				i.values[n], found = text, true
			}
		}
	})
	return found
}

// extract returns ctx with what the sender of a message has put into its params. The span context
// of the sender, if there is one, replaces that of ctx, which is returned as ambient.
func (t *Telemetry) extract(ctx context.Context, params json.RawMessage) (remote context.Context, ambient trace.SpanContext) {
	meta, ok := codec.Member(params, "_meta")
	if !ok {
		return ctx, ambient
	}
	i := t.carriers.Get().(*incoming)
	defer t.carriers.Put(i)
	if !i.read(meta) {
		return ctx, ambient
	}
	before := trace.SpanContextFromContext(ctx)
	ctx = t.propagator.Extract(ctx, i)
	if before.IsValid() && !before.Equal(trace.SpanContextFromContext(ctx)) {
		ambient = before
	}
	return ctx, ambient
}

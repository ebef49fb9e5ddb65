package otel

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// kind identifies operations that have the same attributes, except for those of a single operation.
type kind struct {
	server   bool // this end receives the message
	method   string
	target   string // name of the tool or the prompt
	revision mcp.Revision
	info     transport.Info
}

// hash returns a number that few kinds share. It reads only some bytes, which is faster than a hash
// of all fields.
func (k *kind) hash() int {
	n := 2*len(k.method) + side(k.server)
	if last := len(k.target) - 1; last >= 0 {
		n += 31*last + 7*int(k.target[last])
	}
	return n
}

// entry holds the name, the options and the attributes that all operations of a kind share.
type entry struct {
	kind     kind
	span     string
	options  []trace.SpanStartOption // spanKind and attrs
	spanKind trace.SpanStartOption
	attrs    []attribute.KeyValue // of spans and of metrics
	active   *atomic.Int64        // the operations of the method
	success  []metric.RecordOption
	faults   copied[fault, []metric.RecordOption]
}

// copied is a map whose readers take no lock: each change copies it. It holds at most a given number
// of keys, so that a peer cannot make it grow without a limit.
type copied[K comparable, V any] struct {
	mu      sync.Mutex
	current atomic.Pointer[map[K]V]
}

// get returns the value of a key. If the key is missing, get calls add and stores its value. It
// returns false if the key is missing and the map is full.
func (c *copied[K, V]) get(key K, max int, add func() V) (v V, ok bool) {
	if m := c.current.Load(); m != nil {
		if v, ok = (*m)[key]; ok {
			return v, true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var next map[K]V
	if m := c.current.Load(); m != nil {
		if v, ok = (*m)[key]; ok {
			return v, true
		}
		if len(*m) >= max {
			return v, false
		}
		next = maps.Clone(*m)
	} else {
		next = map[K]V{}
	}
	v = add()
	next[key] = v
	c.current.Store(&next)
	return v, true
}

// each calls f for each key.
func (c *copied[K, V]) each(f func(K, V)) {
	if m := c.current.Load(); m != nil {
		for k, v := range *m {
			f(k, v)
		}
	}
}

// Limits of the numbers of attribute sets.
const (
	maxKinds  = 2000 // kinds of operations
	maxFaults = 50   // of one kind
)

// entryOf returns the entry of a kind. If there are too many kinds, it returns the entry of a more
// general kind.
func (t *Telemetry) entryOf(k kind) *entry {
	recent := &t.recent[k.hash()%len(t.recent)]
	if e := recent.Load(); e != nil && e.kind == k {
		return e
	}
	e, ok := t.entries.get(k, maxKinds, func() *entry { return t.newEntry(k) })
	if ok {
		recent.Store(e)
		return e
	}
	rest := kind{server: k.server, method: k.method}
	if !protocolMethod(k.method) {
		rest.method = other
	}
	if k.target != "" {
		rest.target = other
	}
	// There is at most one more general kind per side, method and kind of target.
	e, _ = t.entries.get(rest, 2*maxKinds, func() *entry { return t.newEntry(rest) })
	return e
}

func (t *Telemetry) newEntry(k kind) *entry {
	e := &entry{kind: k, span: k.method, attrs: []attribute.KeyValue{keyMethod.String(k.method)}}
	if k.target != "" {
		key := keyPrompt
		if k.method == mcp.MethodToolsCall {
			key = keyTool
		}
		e.span += " " + k.target
		e.attrs = append(e.attrs, key.String(k.target))
	}
	if k.method == mcp.MethodToolsCall {
		e.attrs = append(e.attrs, keyOperation.String("execute_tool"))
	}
	e.attrs = append(e.attrs, connection(k.revision, k.info)...)
	e.spanKind = trace.WithSpanKind(trace.SpanKindClient)
	if k.server {
		e.spanKind = trace.WithSpanKind(trace.SpanKindServer)
	}
	e.options = []trace.SpanStartOption{e.spanKind, trace.WithAttributes(e.attrs...)}
	e.success = recordOptions(e.attrs)
	e.active, _ = t.active[side(k.server)].get(k.method, maxKinds+1, func() *atomic.Int64 { return new(atomic.Int64) })
	return e
}

// connection returns the attributes of a connection.
func connection(revision mcp.Revision, info transport.Info) (attrs []attribute.KeyValue) {
	if revision != "" {
		attrs = append(attrs, keyRevision.String(string(revision)))
	}
	if info.Network != "" {
		attrs = append(attrs, keyNetwork.String(info.Network))
	}
	if info.Protocol != "" {
		attrs = append(attrs, keyProtocol.String(info.Protocol))
	}
	if info.Host != "" {
		attrs = append(attrs, keyServerAddress.String(info.Host), keyServerPort.Int(info.Port))
	}
	return attrs
}

func recordOptions(attrs []attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrs...))}
}

// record returns the options for the metric of an operation that has ended with f. The zero fault
// is success.
func (e *entry) record(f fault) []metric.RecordOption {
	if f == (fault{}) {
		return e.success
	}
	return e.failed(f)
}

func (e *entry) failed(f fault) []metric.RecordOption {
	add := func() []metric.RecordOption {
		return recordOptions(append(e.attrs[:len(e.attrs):len(e.attrs)], f.attributes()...))
	}
	options, ok := e.faults.get(f, maxFaults, add)
	if !ok {
		f = fault{errorType: other}
		options, _ = e.faults.get(f, maxFaults+1, add)
	}
	return options
}

// side returns the index of a side in arrays: 0 for clients, 1 for servers.
func side(server bool) int {
	if server {
		return 1
	}
	return 0
}

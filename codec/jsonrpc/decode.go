package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// Parse decodes data, which must be exactly one message. The error is a [*codec.Error]; the package
// comment lists the errors it may wrap.
//
// With an error, Parse also returns the parts of the message that could be read, so that the caller
// can decide whether and how to answer: Kind is the kind that the members indicate, and ID is the
// id if it is valid. In malformed text only the members before the fault count.
func Parse(data []byte, opts ...codec.Option) (Message, error) {
	return parse(data, nil, false, opts...) // not ParseTyped, so that Parse is inlined
}

// ParseReceived parses a message like [Parse], without a limit on its length: the transport that
// received it has applied its own limit. Raw values in the result share the memory of text, as with
// [codec.NoCopy], so text must not be changed afterwards.
//
// It tolerates two faults of existing peers: it ignores a byte order mark, and params that are null
// count as absent. A message with an id, but without a method, params, a result or an error, is
// invalid, and its Kind is [KindResponse]: it is most likely a response whose empty
// result was omitted. Offsets in errors do not count the byte order mark.
func ParseReceived(text []byte) (Message, error) {
	text = bytes.TrimPrefix(text, byteOrderMark)
	if len(text) > wire.DefaultSize {
		return parse(text, nil, true, codec.NoCopy(), codec.MaxSize(len(text)))
	}
	return parse(text, nil, true, codec.NoCopy())
}

var byteOrderMark = []byte("\uFEFF")

// CanonicalID returns the shortest form of an integer id that fits an int64, such as 1 for 1.0.
// It returns other ids unchanged. Some peers answer request 1 with id 1.0, which JSON-RPC calls the
// same value.
func CanonicalID(id ID) ID {
	if i, ok := id.Int(); ok {
		return codec.IntScalar(i)
	}
	return id
}

// Payloads decodes params and results into their own types. A method that returns nil has consumed
// nothing, and the payload stays raw.
type Payloads interface {
	ReadParams(r *wire.Reader, method string) codec.Value
	ReadResult(r *wire.Reader, id ID) codec.Value
	// NeedsID reports whether ReadResult needs the id. If not, a result that stands before the id is
	// decoded in the same pass, too.
	NeedsID() bool
}

// ParseTyped is [Parse] that also decodes params and results with p, in one pass over the text. The
// value that p returns becomes the Payload of the message; Params and Result are then nil. A
// payload of the wrong shape is an error with code -32602, unless the message itself is invalid.
// The rest of the message is read in both cases.
func ParseTyped(data []byte, p Payloads, opts ...codec.Option) (Message, error) {
	return parse(data, p, false, opts...)
}

// parse is ParseTyped. If tolerant is true, it tolerates the faults that ParseReceived names.
func parse(data []byte, p Payloads, tolerant bool, opts ...codec.Option) (Message, error) {
	parser := parsers.Get().(*parser)
	parser.limits = wire.Limits{}
	for _, o := range opts {
		o(&parser.limits)
	}
	r := &parser.Reader
	r.Reset(data, parser.limits)
	var d decoder // with a composite literal, the compiler would fill it in a second place and copy it
	d.r, d.extra, d.types, d.limits, d.tolerant = r, &parser.extra, p, &parser.limits, tolerant
	d.message()
	r.End()
	r.Fail(d.faultAt, d.fault)
	d.m.Extra = parser.extra
	at, fault := parser.release()
	if fault != nil {
		return d.m, located(data, at, fault, opts)
	}
	return d.m, nil
}

// located returns the error for a fault at an offset of data, with its line, column and pointer.
func located(data []byte, at int, fault error, opts []codec.Option) error {
	_, err := codec.UnmarshalFunc(data, func(r *wire.Reader) struct{} {
		r.Fail(at, fault)
		return struct{}{}
	}, opts...)
	return err
}

// parser holds the parts of a decoder that escape to the heap. They are allocated together, so
// that parsing a message takes one object from a pool, and the decoder stays on the stack.
type parser struct {
	wire.Reader
	limits wire.Limits // set by options
	extra  wire.Extra
}

// parsers holds parsers that are not in use. They keep nothing of the texts they have read.
var parsers = sync.Pool{New: func() any { return new(parser) }}

// release puts p back into the pool and returns the failure of its Reader.
func (p *parser) release() (at int, err error) {
	at, err = p.Failure()
	p.Forget()
	p.extra = wire.Extra{}
	parsers.Put(p)
	return at, err
}

// The members of the envelope, as indices of members.
const (
	memberVersion = iota
	memberID
	memberMethod
	memberParams
	memberResult
	memberError
)

// Null is allowed for all of them here: decoder.checkMembers checks the whole message and reports a
// null with its own error.
var members = wire.Members{
	Names: []string{`"jsonrpc":`, `"id":`, `"method":`, `"params":`, `"result":`, `"error":`},
	Null:  1<<6 - 1,
	ID:    59049,
}

// The members of the envelope, as bits of decoder.seen.
const (
	seenVersion = 1 << memberVersion
	seenID      = 1 << memberID
	seenMethod  = 1 << memberMethod
	seenParams  = 1 << memberParams
	seenResult  = 1 << memberResult
	seenError   = 1 << memberError
)

// decoder decodes one message. It continues after a fault of the message, to find an id after the
// fault and to distinguish malformed text from an invalid message.
type decoder struct {
	r      *wire.Reader
	m      Message // without Extra
	extra  *wire.Extra
	seen   uint
	nullID bool
	at     struct{ id, params, result, error int } // offsets of values
	params wire.Kind
	types  Payloads     // nil if payloads stay raw
	limits *wire.Limits // not nil if types is not nil
	// Faults are tolerated; see ParseReceived.
	tolerant bool

	faultAt int
	fault   error // the first one
	shapeAt int
	shape   error // of a payload; it counts only if nothing is wrong with the message itself
}

// message reads the message. Malformed text fails the Reader; a fault of the message is recorded in
// the decoder with its offset.
func (d *decoder) message() {
	r := d.r
	start := r.Offset()
	if kind := r.Kind(); kind != wire.KindObject {
		r.Skip()
		d.fail(start, jsonfault.NotObject)
		if kind == wire.KindArray {
			d.fault = jsonfault.Batch
		}
		return
	}
	o := r.Enter(&members, d.extra)
	for i := o.Next(); i >= 0; i = o.Next() {
		d.member(i)
	}
	d.m.Kind = d.kind()
	d.checkMembers(start)
	if d.shape != nil {
		d.fail(d.shapeAt, d.shape)
	}
	if d.types != nil && d.fault == nil && !r.Failed() {
		d.decodeDeferred()
	}
}

// member reads the value of the i-th of members. The Reader has just read its name.
func (d *decoder) member(i int) {
	r := d.r
	switch i {
	case memberVersion:
		d.record(seenVersion)
		at := r.Offset()
		if r.TextIs("2.0") {
			return
		}
		if r.Kind() != wire.KindString {
			d.mistyped(jsonfault.Version, "string")
		} else if string(r.TextBytes()) != "2.0" {
			d.fail(at, jsonfault.Version)
		}
	case memberID:
		d.record(seenID)
		d.at.id = r.Offset()
		d.id()
	case memberMethod:
		d.record(seenMethod)
		if r.Kind() != wire.KindString {
			d.mistyped(jsonfault.Method, "string")
		} else {
			d.m.Method = r.Text()
		}
	case memberParams:
		d.record(seenParams)
		d.at.params, d.params = r.Offset(), r.Kind()
		mark := r.Checkpoint()
		if d.types == nil || d.m.Method == "" || d.params != wire.KindObject || !d.payload(mark, d.types.ReadParams(r, d.m.Method)) {
			d.m.Params = r.Raw()
		}
	case memberResult:
		d.record(seenResult)
		d.at.result = r.Offset()
		if r.Kind() != wire.KindObject {
			d.mistyped(jsonfault.Result, "object")
			return
		}
		mark := r.Checkpoint()
		if d.types == nil || !d.readsResult() || !d.payload(mark, d.types.ReadResult(r, d.m.ID)) {
			d.m.Result = r.Raw()
		}
	case memberError:
		d.record(seenError)
		d.at.error = r.Offset()
		d.error()
	default:
		r.Extra(d.extra)
	}
}

// readsResult reports whether enough is known to decode a result.
func (d *decoder) readsResult() bool {
	return !d.m.ID.IsZero() || !d.types.NeedsID()
}

// payload stores v, which was read from mark on, and reports whether it is not nil. It skips a
// payload of the wrong shape, so that the rest of the message is read.
func (d *decoder) payload(mark wire.Checkpoint, v codec.Value) bool {
	if v == nil {
		return false
	}
	if !d.r.Failed() {
		d.m.Payload = v
		return true
	}
	if at, err := d.r.Failure(); !jsonfault.Malformed(err) {
		d.r.Rewind(mark)
		d.shapeAt, d.shape = at, err
		d.r.Skip()
	}
	return true
}

// decodeDeferred decodes a payload that stands before the method or the id that determines its
// type.
func (d *decoder) decodeDeferred() {
	m := &d.m
	raw, at := m.Params, d.at.params
	read := func(r *wire.Reader) codec.Value { return d.types.ReadParams(r, m.Method) }
	if m.Kind == KindResponse {
		raw, at = m.Result, d.at.result
		read = func(r *wire.Reader) codec.Value { return d.types.ReadResult(r, m.ID) }
	}
	if m.Payload != nil || len(raw) == 0 {
		return
	}
	p := parsers.Get().(*parser)
	p.Reset(raw, *d.limits)
	v := read(&p.Reader)
	if failedAt, err := p.release(); err != nil {
		d.fail(at+failedAt, err)
		return
	}
	if v != nil {
		m.Payload, m.Params, m.Result = v, nil, nil
	}
}

// record records that a member is present, and fails if it is repeated.
func (d *decoder) record(bit uint) {
	if d.seen&bit != 0 {
		d.r.FailDuplicate()
		if bit == seenID {
			d.m.ID = ID{} // ambiguous
		}
	}
	d.seen |= bit
}

func (d *decoder) id() {
	r := d.r
	switch r.Kind() {
	case wire.KindString, wire.KindNumber:
		id := codec.ReadScalar(r, wire.ScalarString|wire.ScalarNumber)
		if id.Kind() == wire.ScalarNumber {
			d.fail(d.at.id, fmt.Errorf("%w: %w", jsonfault.ID, jsonfault.Integer))
			return
		}
		d.m.ID = id
	case wire.KindNull:
		d.nullID = true
		r.Keep(d.extra, "id")
	default:
		d.mistyped(jsonfault.ID, "string or integer")
	}
}

func (d *decoder) error() {
	r := d.r
	mark := r.Checkpoint()
	d.m.Error = new(Error)
	d.m.Error.DecodeJSON(r)
	if !r.Failed() {
		return
	}
	at, rule := r.Failure()
	if jsonfault.Malformed(rule) {
		return
	}
	r.Rewind(mark)
	if !errors.Is(rule, jsonfault.Error) {
		rule = fmt.Errorf("%w: %w", jsonfault.Error, rule)
	}
	d.fail(at, rule)
	r.Skip()
}

// mistyped skips the next value and records that its kind is wrong.
func (d *decoder) mistyped(rule error, want string) {
	at, got := d.r.Offset(), d.r.Kind()
	d.r.Skip()
	d.fail(at, fmt.Errorf("%w: %w", rule, wire.WrongKind(want, got)))
}

// fail records a fault of the message, unless there was one before.
func (d *decoder) fail(at int, err error) {
	if d.fault == nil {
		d.faultAt, d.fault = at, err
	}
}

// kind returns the kind that the members of the message indicate.
func (d *decoder) kind() Kind {
	switch {
	case d.seen&seenMethod != 0 && d.seen&seenID != 0:
		return KindRequest
	case d.seen&seenMethod != 0:
		if d.r.Failed() {
			return KindInvalid // the id may be further on
		}
		return KindNotification
	case d.seen&seenError != 0:
		return KindErrorResponse
	case d.seen&seenResult != 0:
		return KindResponse
	case d.tolerant && d.seen == seenVersion|seenID && !d.r.Failed():
		return KindResponse
	}
	return KindInvalid
}

// checkMembers checks the combination of members. The message starts at start.
func (d *decoder) checkMembers(start int) {
	if d.r.Failed() {
		return
	}
	m := &d.m
	both := d.seen & (seenResult | seenError)
	switch {
	case both == seenResult|seenError:
		d.fail(max(d.at.result, d.at.error), jsonfault.Both)
	case both != 0 && d.seen&seenMethod != 0:
		d.fail(max(d.at.result, d.at.error), jsonfault.Mixed)
	}
	switch {
	case d.seen&seenVersion == 0:
		d.fail(start, jsonfault.Version)
	case m.Kind == KindInvalid, m.Kind == KindResponse && d.seen&seenResult == 0:
		d.fail(start, jsonfault.Neither)
	case d.nullID && m.Kind != KindErrorResponse:
		d.fail(d.at.id, fmt.Errorf("%w: %w", jsonfault.ID, wire.WrongKind("string or integer", wire.KindNull)))
	case m.Kind == KindResponse && d.seen&seenID == 0:
		d.fail(start, jsonfault.NoID)
	}
	if d.seen&seenParams == 0 {
		return
	}
	switch {
	case d.seen&seenMethod == 0:
		d.extra.Set("params", m.Params)
		m.Params = nil
	case d.params == wire.KindNull && d.tolerant:
		m.Params = nil
	case d.params == wire.KindArray:
		d.fail(d.at.params, jsonfault.Positional)
	case d.params != wire.KindObject:
		d.fail(d.at.params, fmt.Errorf("%w: %w", jsonfault.Params, wire.WrongKind("object", d.params)))
	}
}

// DecodeJSON reads an error object. It fails if the value is not an object or has no
// code or no message.
func (e *Error) DecodeJSON(r *wire.Reader) {
	*e = Error{}
	start := r.Offset()
	if kind := r.Kind(); kind != wire.KindObject && kind != wire.KindInvalid {
		r.Fail(start, fmt.Errorf("%w: %w", jsonfault.Error, wire.WrongKind("object", kind)))
		return
	}
	o := r.Enter(&errorMembers, &e.Extra)
	for i := o.Next(); i >= 0; i = o.Next() {
		switch i {
		case 0:
			e.Code = o.Int()
		case 1:
			e.Message = r.Text()
		case 2:
			e.Data = r.Raw()
		default:
			o.Extra()
		}
	}
	if !o.Has(0) || !o.Has(1) {
		r.Fail(start, jsonfault.Error)
	}
}

// Null is allowed for all of them here, so that reading a code or a message that is null fails with
// codec.ErrType.
var errorMembers = wire.Members{
	Names: []string{`"code":`, `"message":`, `"data":`},
	Null:  1<<3 - 1,
	ID:    59051,
}

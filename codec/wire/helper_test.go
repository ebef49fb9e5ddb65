package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/internal/scan"
	"github.com/mcpwire/mcpwire/codec/internal/slow"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// place is an expected error: its sentinel, offset and pointer.
type place struct {
	err     error
	offset  int64
	pointer string
}

// placeOf returns the error that a refused input must cause.
func placeOf(r hostile.Refusal) place {
	err, ok := rules[r.Rule]
	if !ok {
		panic("no error for the rule " + r.Rule)
	}
	return place{err, int64(r.Offset), r.Pointer}
}

// rules are the sentinels that hostile inputs are refused with.
var rules = map[hostile.Rule]error{
	hostile.Taken: nil, hostile.Syntax: codec.ErrSyntax, hostile.BOM: jsonfault.BOM, hostile.ControlChar: jsonfault.ControlChar, hostile.Escape: jsonfault.Escape,
	hostile.Number: jsonfault.Number, hostile.Literal: jsonfault.Literal, hostile.EOF: jsonfault.EOF, hostile.Trailing: jsonfault.Trailing,
	hostile.UTF8: jsonfault.UTF8, hostile.Surrogate: jsonfault.Surrogate, hostile.Duplicate: codec.ErrDuplicate,
	hostile.Depth: jsonfault.Depth, hostile.Size: jsonfault.Size, hostile.StringSize: jsonfault.StringSize,
}

// check fails the test unless err matches the place. The zero place stands for no error. Line and
// column must be those of the offset.
func (p place) check(t *testing.T, text string, err error) {
	t.Helper()
	if p.err == nil {
		if err != nil {
			t.Errorf("%s: %v", clip(text), err)
		}
		return
	}
	var e *codec.Error
	switch {
	case !errors.As(err, &e):
		t.Errorf("%s: got %v, want %v", clip(text), err, p.err)
	case !errors.Is(err, p.err) || e.Offset != p.offset || e.Pointer != p.pointer:
		t.Errorf("%s: got %v\n\tat %d %q, want %v\n\tat %d %q", clip(text), err, e.Offset, e.Pointer, p.err, p.offset, p.pointer)
	default:
		line := 1 + strings.Count(text[:e.Offset], "\n")
		column := int(e.Offset) - strings.LastIndexByte(text[:e.Offset], '\n')
		if e.Line != line || e.Column != column {
			t.Errorf("%s: line %d, column %d, want %d and %d", clip(text), e.Line, e.Column, line, column)
		}
	}
}

func clip(text string) string {
	if len(text) > 100 {
		return fmt.Sprintf("%q… (%d bytes)", text[:100], len(text))
	}
	return fmt.Sprintf("%q", text)
}

// tree is any JSON value, read and written one token at a time.
type tree struct {
	kind   wire.Kind
	text   string // scalars: string content, number text or true, false
	names  []string
	values []tree
}

func (v *tree) DecodeJSON(r *wire.Reader) {
	*v = tree{kind: r.Kind()}
	switch v.kind {
	case wire.KindNull:
		r.Null()
	case wire.KindBool:
		v.text = fmt.Sprint(r.Bool())
	case wire.KindNumber:
		v.text = string(r.Number())
	case wire.KindString:
		v.text = r.Text()
	case wire.KindArray:
		for r.Array(); r.More(); {
			var e tree
			e.DecodeJSON(r)
			v.values = append(v.values, e)
		}
	case wire.KindObject:
		seen := map[string]bool{}
		for r.Object(); r.More(); {
			name := r.Key()
			if seen[name] {
				r.FailDuplicate()
			}
			seen[name] = true
			var e tree
			e.DecodeJSON(r)
			v.names = append(v.names, name)
			v.values = append(v.values, e)
		}
	default:
		r.Skip()
	}
}

func (v *tree) EncodeJSON(w *wire.Writer) {
	switch v.kind {
	case wire.KindNull:
		w.Null()
	case wire.KindBool:
		w.Bool(v.text == "true")
	case wire.KindNumber:
		w.Number(v.text)
	case wire.KindString:
		w.Text(v.text)
	case wire.KindArray:
		w.BeginArray()
		for i := range v.values {
			w.Elem()
			v.values[i].EncodeJSON(w)
		}
		w.EndArray()
	case wire.KindObject:
		w.Begin()
		for i := range v.values {
			w.MapKey(v.names[i])
			v.values[i].EncodeJSON(w)
		}
		w.End()
	default:
		w.Fail("", codec.ErrNoValue)
	}
}

// record resembles a generated type. It has required and optional members, nested values and
// unknown members.
type record struct {
	ID    codec.Scalar // required, member 0
	Name  string       // required, member 1
	Count *int64       // optional
	Ratio *float64     // optional
	Tags  []string     // optional
	Inner *record      // optional
	List  []record     // optional
	Free  json.RawMessage
	Extra wire.Extra
}

func (v *record) DecodeJSON(r *wire.Reader) {
	*v = record{}
	const (
		id = 1 << iota
		name
		count
		ratio
		tags
		inner
		list
		free
	)
	var seen uint64
	r.Object()
	for next, ok := r.NextKey(); ok; next, ok = r.NextKey() {
		key := string(next)
		bit := map[string]uint64{"id": id, "name": name, "count": count, "ratio": ratio, "tags": tags, "inner": inner, "list": list, "free": free}[key]
		if seen&bit != 0 {
			r.FailDuplicate()
		}
		if bit != 0 && bit != free && r.Kind() == wire.KindNull {
			seen |= bit
			r.Keep(&v.Extra, key)
			continue
		}
		seen |= bit
		switch bit {
		case id:
			v.ID = codec.ReadScalar(r, wire.ScalarString|wire.ScalarInteger)
		case name:
			v.Name = r.Text()
		case count:
			v.Count = new(r.IntExact(&v.Extra, key))
		case ratio:
			v.Ratio = new(r.FloatExact(&v.Extra, key))
		case tags:
			v.Tags = wire.ReadTexts[string](r)
		case inner:
			v.Inner = new(record)
			v.Inner.DecodeJSON(r)
		case list:
			v.List = wire.DecodeList[record](r)
		case free:
			v.Free = r.Raw()
		default:
			r.Extra(&v.Extra)
		}
	}
	if missing := (id | name) &^ seen; missing != 0 {
		v.Extra.SetAbsent(missing)
	}
}

func (v *record) EncodeJSON(w *wire.Writer) {
	start := w.Begin()
	if !v.ID.IsZero() {
		w.Key(`,"id":`)
		v.ID.EncodeJSON(w)
	}
	if _, kept := v.Extra.Get("name"); !v.Extra.Absent(1) && !kept {
		w.Key(`,"name":`)
		w.Text(v.Name)
	}
	if v.Count != nil {
		w.Key(`,"count":`)
		w.IntExact(*v.Count, v.Extra, "count")
	}
	if v.Ratio != nil {
		w.Key(`,"ratio":`)
		w.FloatExact(*v.Ratio, v.Extra, "ratio")
	}
	if v.Tags != nil {
		w.Key(`,"tags":`)
		wire.EncodeListFunc(w, v.Tags, (*wire.Writer).Text)
	}
	if v.Inner != nil {
		w.Key(`,"inner":`)
		v.Inner.EncodeJSON(w)
	}
	if v.List != nil {
		w.Key(`,"list":`)
		wire.EncodeList(w, v.List)
	}
	if v.Free != nil {
		w.Key(`,"free":`)
		w.Raw(v.Free)
	}
	w.EndExtra(start, v.Extra, nil)
}

// newReader returns a Reader for data.
func newReader(data []byte, opts ...codec.Option) *wire.Reader {
	var limits wire.Limits
	for _, o := range opts {
		o(&limits)
	}
	return wire.NewReader(data, limits)
}

// errorOf returns the failure of r as package codec describes it.
func errorOf(r *wire.Reader) error {
	data := r.Source()
	at, err := r.Failure()
	if err == nil {
		return nil
	}
	line, column := codec.Position(data, at)
	e := &codec.Error{Offset: int64(at), Line: line, Column: column, Err: err}
	if err != jsonfault.Size {
		e.Pointer = scan.PointerTo(data, at)
	}
	return e
}

// writeError returns the failure of w as package codec does.
func writeError(w *wire.Writer) error {
	f := w.Failure()
	if f.Err == nil {
		return nil
	}
	return &codec.Error{Offset: int64(f.Offset), Line: 1, Column: f.Offset + 1, Pointer: f.Pointer, Err: f.Err}
}

// slowString is slow.String with the errors of package codec.
func slowString(text string) (end int, err error) {
	end, rule := slow.String(text)
	return end, rules[rule]
}

// isKind reports whether err is about a value of the kind got where want was needed.
func isKind(err error, want string, got wire.Kind) bool {
	e, ok := errors.AsType[*codec.Error](err)
	return ok && errors.Is(err, codec.ErrType) && e.Err.Error() == "want "+want+", got "+got.String()
}

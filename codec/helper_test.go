package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/internal/hostile"
)

// place pins an error: which sentinel, where, and at which pointer.
type place struct {
	err     error
	offset  int64
	pointer string
}

// placeOf is what refuses an input.
func placeOf(r hostile.Refusal) place {
	err, ok := rules[r.Rule]
	if !ok {
		panic("no error for the rule " + r.Rule)
	}
	return place{err, int64(r.Offset), r.Pointer}
}

// rules are the sentinels that hostile inputs are refused with.
var rules = map[hostile.Rule]error{
	hostile.Taken: nil, hostile.Syntax: ErrSyntax, hostile.BOM: ErrBOM, hostile.ControlChar: ErrControlChar, hostile.Escape: ErrEscape,
	hostile.Number: ErrNumber, hostile.Literal: ErrLiteral, hostile.EOF: ErrEOF, hostile.Trailing: ErrTrailing,
	hostile.UTF8: ErrUTF8, hostile.Surrogate: ErrSurrogate, hostile.Duplicate: ErrDuplicate,
	hostile.Depth: ErrDepth, hostile.Size: ErrSize, hostile.StringSize: ErrStringSize,
}

// check fails the test unless err is what the place says; a zero place wants no error. Line and column must be
// those of the offset.
func (p place) check(t *testing.T, text string, err error) {
	t.Helper()
	if p.err == nil {
		if err != nil {
			t.Errorf("%s: %v", clip(text), err)
		}
		return
	}
	var e *Error
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
	kind   Kind
	text   string // scalars: string content, number text or true, false
	names  []string
	values []tree
}

func (v *tree) DecodeJSON(r *Reader) {
	*v = tree{kind: r.Kind()}
	switch v.kind {
	case KindNull:
		r.Null()
	case KindBool:
		v.text = fmt.Sprint(r.Bool())
	case KindNumber:
		v.text = string(r.Number())
	case KindString:
		v.text = r.Text()
	case KindArray:
		for r.Array(); r.More(); {
			var e tree
			e.DecodeJSON(r)
			v.values = append(v.values, e)
		}
	case KindObject:
		seen := map[string]bool{}
		for r.Object(); r.More(); {
			name := r.Key()
			if seen[name] {
				r.Duplicate(name)
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

func (v *tree) EncodeJSON(w *Writer) {
	switch v.kind {
	case KindNull:
		w.Null()
	case KindBool:
		w.Bool(v.text == "true")
	case KindNumber:
		w.Number(Number(v.text))
	case KindString:
		w.Text(v.text)
	case KindArray:
		w.BeginArray()
		for i := range v.values {
			w.Elem()
			v.values[i].EncodeJSON(w)
		}
		w.EndArray()
	case KindObject:
		start := w.Begin()
		for i := range v.values {
			w.MapKey(v.names[i])
			v.values[i].EncodeJSON(w)
		}
		w.End(start, Extra{})
	default:
		w.Fail("", ErrNoValue)
	}
}

// record is what a generated type looks like: required members, optional ones, nested values, unknown members.
type record struct {
	ID    Scalar   // required, member 0
	Name  string   // required, member 1
	Count *int64   // optional
	Ratio *float64 // optional
	Tags  []string // optional
	Inner *record  // optional
	List  []record // optional
	Free  json.RawMessage
	Extra Extra
}

func (v *record) DecodeJSON(r *Reader) {
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
			r.Duplicate(key)
		}
		if bit != 0 && bit != free && r.Kind() == KindNull {
			seen |= bit
			r.Keep(&v.Extra, key)
			continue
		}
		seen |= bit
		switch bit {
		case id:
			v.ID = r.Scalar(ScalarString | ScalarInteger)
		case name:
			v.Name = r.Text()
		case count:
			v.Count = new(r.IntExact(&v.Extra, key))
		case ratio:
			v.Ratio = new(r.FloatExact(&v.Extra, key))
		case tags:
			v.Tags = r.Texts()
		case inner:
			v.Inner = new(record)
			v.Inner.DecodeJSON(r)
		case list:
			v.List = DecodeList[record](r)
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

func (v *record) EncodeJSON(w *Writer) {
	start := w.Begin()
	if !v.ID.IsZero() {
		w.Key(`,"id":`)
		w.Scalar(v.ID)
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
		w.Texts(v.Tags)
	}
	if v.Inner != nil {
		w.Key(`,"inner":`)
		v.Inner.EncodeJSON(w)
	}
	if v.List != nil {
		w.Key(`,"list":`)
		EncodeList(w, v.List)
	}
	if v.Free != nil {
		w.Key(`,"free":`)
		w.Raw(v.Free)
	}
	w.End(start, v.Extra)
}

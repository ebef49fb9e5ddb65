package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	legacy "github.com/goccy/go-json"
	"github.com/goccy/go-json/jsontext"
	engine "github.com/goccy/go-json/v2"

	"github.com/mcpwire/mcpwire/codec"
)

// form gives types the JSON form that encoding/json gives them, where the engine has another of its own.
var form = engine.JoinOptions(
	legacy.FormatByteArrayAsArray(true),
	legacy.FormatDurationAsNano(true),
	legacy.OmitEmptyWithLegacySemantics(true),
	legacy.StringifyWithLegacySemantics(true),
)

// reading and writing are the options that the engine runs with.
var (
	reading = engine.JoinOptions(form, engine.WithUnmarshalers(engine.JoinUnmarshalers(
		engine.UnmarshalFromFunc(readAny),
		engine.UnmarshalFromFunc(readNumber),
	)))
	writing = engine.JoinOptions(form, engine.Deterministic(true))
)

// readAny reads into an empty interface, unless that holds a value of a type that somebody chose to decode into.
func readAny(d *jsontext.Decoder, v *any) error {
	switch (*v).(type) {
	case nil, bool, string, json.Number, []any, map[string]any:
	default:
		return errors.ErrUnsupported
	}
	text, err := d.ReadValue()
	if err != nil {
		return err
	}
	r := codec.Borrow(text)
	*v = anything(r)
	err = r.Release()
	if errors.Is(err, codec.ErrDepth) || errors.Is(err, codec.ErrSize) {
		// The text has passed under limits that are not the default ones.
		r = codec.NewReader(text, codec.MaxDepth(math.MaxInt), codec.MaxSize(len(text)))
		*v = anything(r)
		err = r.Err()
	}
	return err
}

// anything reads a value as an empty interface holds it.
func anything(r *codec.Reader) any {
	switch r.Kind() {
	case codec.KindObject:
		m := map[string]any{}
		for r.Object(); r.More(); {
			name := r.Key()
			m[name] = anything(r)
		}
		return m
	case codec.KindArray:
		list := []any{}
		for r.Array(); r.More(); {
			list = append(list, anything(r))
		}
		return list
	case codec.KindString:
		return r.Text()
	case codec.KindNumber:
		return json.Number(r.Number())
	case codec.KindBool:
		return r.Bool()
	}
	r.Skip()
	return nil
}

// readNumber reads a json.Number, which the engine takes for a string.
func readNumber(d *jsontext.Decoder, v *json.Number) error {
	if isName(d.StackIndex(d.StackDepth())) {
		return errors.ErrUnsupported
	}
	text, err := d.ReadValue()
	switch {
	case err != nil:
		return err
	case text.Kind() == 'n':
		*v = ""
	case text.Kind() != '0':
		return &codec.TypeError{Want: "number", Got: kindOf(text)}
	default:
		*v = json.Number(text)
	}
	return nil
}

// isName reports whether what comes next is a member name, in a value of a kind that has had length names and
// values.
func isName(kind jsontext.Kind, length int64) bool { return kind == '{' && length%2 == 0 }

// plainInteger returns an integer that is written with a fraction or an exponent in digits; ok is false for
// anything else, and for what does not fit an int64.
func plainInteger(text []byte) (digits []byte, ok bool) {
	if !bytes.ContainsAny(text, ".eE") {
		return nil, false
	}
	v, ok := codec.Number(text).Int()
	switch {
	case !ok:
		return nil, false
	case v == 0 && text[0] == '-':
		return []byte("-0"), true // which is another float than 0
	}
	return strconv.AppendInt(nil, v, 10), true
}

package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	legacy "github.com/goccy/go-json"
	"github.com/goccy/go-json/jsontext"
	engine "github.com/goccy/go-json/v2"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// form makes the engine use the JSON form of encoding/json where its own differs.
var form = engine.JoinOptions(
	legacy.FormatByteArrayAsArray(true),
	legacy.FormatBytesWithLegacySemantics(true),
	legacy.FormatDurationAsNano(true),
	legacy.OmitEmptyWithLegacySemantics(true),
	legacy.StringifyWithLegacySemantics(true),
)

// mode is how the engine runs. Each bit costs time, so it is set only for the values that need it.
type mode uint8

const (
	// exact reads integers in every notation, rounds numbers to float32 once, and reads named empty
	// interface types like any.
	exact mode = 1 << iota
	// lenient accepts struct definitions that encoding/json accepts and the engine otherwise
	// refuses.
	lenient
	// singles adds exact if a number of the text needs it for a float32. The engine does not know it.
	singles
)

// readers and writers are the options that the engine runs with, by mode. Mode exact makes no
// difference to a writer.
var (
	common       = engine.JoinUnmarshalers(engine.UnmarshalFromFunc(readAny), engine.UnmarshalFromFunc(readNumber), standardReaders)
	all          = engine.JoinUnmarshalers(common, engine.UnmarshalFromFunc(readFloat32s), engine.UnmarshalFromFunc(readExact))
	legacyErrors = legacy.ReportErrorsWithLegacySemantics(true)

	readers = [4]engine.Options{
		engine.JoinOptions(form, engine.WithUnmarshalers(common)),
		exact:           engine.JoinOptions(form, engine.WithUnmarshalers(all)),
		lenient:         engine.JoinOptions(form, engine.WithUnmarshalers(common), legacyErrors),
		exact | lenient: engine.JoinOptions(form, engine.WithUnmarshalers(all), legacyErrors),
	}
	writers = [3]engine.Options{
		engine.JoinOptions(form, engine.Deterministic(true)),
		lenient: engine.JoinOptions(form, engine.Deterministic(true), legacyErrors),
	}
)

// readAny reads into an empty interface, unless the caller has stored a value in it to decode into.
func readAny(d *jsontext.Decoder, v *any) error {
	if isTarget(*v) {
		return errors.ErrUnsupported
	}
	x, err := readUntyped(d)
	if err == nil {
		*v = x
	}
	return err
}

// isTarget reports whether v, the value in an empty interface, has a type that readUntyped does not
// return. Then the caller has stored it there to decode into.
func isTarget(v any) bool {
	switch v.(type) {
	case nil, bool, string, json.Number, []any, map[string]any:
		return false
	}
	return true
}

// readUntyped reads a value as an empty interface holds it.
func readUntyped(d *jsontext.Decoder) (v any, err error) {
	text, err := d.ReadValue()
	if err != nil {
		return nil, err
	}
	// The text was checked before, with limits that may be above the default ones.
	return codec.UnmarshalFunc(text, untypedValue, codec.MaxDepth(math.MaxInt), codec.MaxSize(max(len(text), wire.DefaultSize)))
}

// untypedValue reads a value as an empty interface holds it.
func untypedValue(r *wire.Reader) any {
	switch r.Kind() {
	case wire.KindObject:
		m := map[string]any{}
		for r.Object(); r.More(); {
			name := r.Key()
			m[name] = untypedValue(r)
		}
		return m
	case wire.KindArray:
		list := []any{}
		for r.Array(); r.More(); {
			list = append(list, untypedValue(r))
		}
		return list
	case wire.KindString:
		return r.Text()
	case wire.KindNumber:
		return json.Number(r.Number())
	case wire.KindBool:
		return r.Bool()
	}
	r.Skip()
	return nil
}

// readNumber reads a json.Number, which the engine would treat as a string.
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
		return wire.WrongKind("number", kindOf(text))
	default:
		*v = json.Number(text)
	}
	return nil
}

// roundsTwice reports whether a number in text, which is well formed, is another float32 if it is
// rounded to a float64 first, as the engine does. That is so if the float64 lies halfway between two
// float32, but the number does not. The engine rounds numbers in strings once.
func roundsTwice(text []byte) bool {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == '-' || '0' <= c && c <= '9':
			start, point, short := i, len(text), true
			for i++; i < len(text) && isNumeral(text[i]); i++ {
				switch text[i] {
				case '.':
					point = i
				case 'e', 'E':
					short = false
				}
			}
			short = short && i-start <= maxShort && i-point <= 1+maxShortFraction
			if !short && differs(string(text[start:i])) {
				return true
			}
		}
	}
	return false
}

// A number of at most maxShort digits, with at most maxShortFraction of them after the point and
// without an exponent, is not rounded twice: near 2^k, its distance from a point halfway between two
// float32 is either 0 or at least 2^(k-24)/10^8, and a float64 is at most 2^(k-53) from the number.
const (
	maxShort         = 15
	maxShortFraction = 8
)

func isNumeral(c byte) bool {
	return '0' <= c && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}

// differs reports whether a number is another float32 if it is rounded to a float64 first.
func differs(number string) bool {
	double, err := strconv.ParseFloat(number, 64)
	const halfway, normal = 1 << 28, 0x1p-126 // half of a unit in the last place of a float32, and the least one with all its bits
	if err != nil || math.Float64bits(double)&(1<<29-1) != halfway && math.Abs(double) >= normal {
		return false
	}
	single, _ := strconv.ParseFloat(number, 32)
	return float32(single) != float32(double)
}

// readFloat32s reads an array of numbers, for which readExact would be called number by number, at
// the price of a call of the engine each. It leaves everything else, and all faults, to the
// engine.
func readFloat32s(d *jsontext.Decoder, v *[]float32) error {
	if d.PeekKind() != '[' {
		return errors.ErrUnsupported
	}
	text, _, ok := bytes.Cut(bytes.TrimLeft(d.UnreadBuffer(), " \t\r\n:,")[1:], []byte("]"))
	if !ok || len(bytes.TrimSpace(text)) == 0 {
		return errors.ErrUnsupported
	}
	list := make([]float32, 0, 1+bytes.Count(text, []byte(",")))
	for item := range bytes.SplitSeq(text, []byte(",")) {
		n, err := strconv.ParseFloat(string(bytes.Trim(item, " \t\r\n")), 32)
		if err != nil { // out of range, or not a number: the text is well formed
			return errors.ErrUnsupported
		}
		list = append(list, float32(n))
	}
	*v = list
	return d.SkipValue()
}

// isName reports whether a member name comes next. kind is the kind of the array or object that is
// open, and length counts the names and values read from it so far.
func isName(kind jsontext.Kind, length int64) bool { return kind == '{' && length%2 == 0 }

// readExact reads named empty interface types like any, reads numbers with a fraction or an
// exponent into integer types, and rounds numbers to float32 types where the engine does it wrongly.
// It leaves everything else to the engine.
func readExact(d *jsontext.Decoder, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return errors.ErrUnsupported
	}
	switch target := p.Elem(); target.Kind() {
	case reflect.Interface:
		if target.NumMethod() > 0 || isTarget(target.Interface()) {
			return errors.ErrUnsupported
		}
		x, err := readUntyped(d)
		switch {
		case err != nil:
			return err
		case x == nil:
			target.SetZero()
		default:
			target.Set(reflect.ValueOf(x))
		}
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		digits, err := readDigits(d, p.Type())
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(digits, 10, target.Type().Bits())
		if err != nil {
			return fmt.Errorf("%w of Go type %v", ErrRange, target.Type())
		}
		target.SetInt(n)
		return nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		digits, err := readDigits(d, p.Type())
		if err != nil {
			return err
		}
		n, err := strconv.ParseUint(digits, 10, target.Type().Bits())
		if err != nil {
			return fmt.Errorf("%w of Go type %v", ErrRange, target.Type())
		}
		target.SetUint(n)
		return nil
	case reflect.Float32:
		if d.PeekKind() != '0' || reads(p.Type()) {
			return errors.ErrUnsupported
		}
		text := string(number(bytes.TrimLeft(d.UnreadBuffer(), " \t\r\n:,")))
		// The engine refuses numbers that are more than [math.MaxFloat32] before they are rounded.
		double, _ := strconv.ParseFloat(text, 64)
		n, err := strconv.ParseFloat(text, 32)
		if err != nil || !differs(text) && math.Abs(double) <= math.MaxFloat32 {
			return errors.ErrUnsupported // also because the engine knows the tag option string
		}
		target.SetFloat(n)
		return d.SkipValue()
	}
	return errors.ErrUnsupported
}

// readDigits reads an integer that is written with a fraction or an exponent, and returns its
// digits. It leaves other numbers to the engine, and all numbers if the given pointer type has a
// method that decodes.
func readDigits(d *jsontext.Decoder, pointer reflect.Type) (string, error) {
	if d.PeekKind() != '0' || reads(pointer) {
		return "", errors.ErrUnsupported
	}
	text := bytes.TrimLeft(d.UnreadBuffer(), " \t\r\n:,")
	digits, ok := plainInteger([]byte(number(text)))
	if !ok {
		return "", errors.ErrUnsupported
	}
	_, err := d.ReadValue()
	return digits, err
}

// plainInteger returns the digits of an integer that is written with a fraction or an exponent. ok
// is false for any other text, and for an integer of more than 20 digits, which no Go type holds.
func plainInteger(text []byte) (digits string, ok bool) {
	at := bytes.IndexAny(text, ".eE")
	if at < 0 || !codec.Number(text).IsInteger() {
		return "", false
	}
	if n, ok := codec.Number(text).Int(); ok {
		return strconv.FormatInt(n, 10), true
	}
	mantissa, exponent, _ := bytes.Cut(bytes.ToLower(text), []byte("e"))
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	fraction = bytes.TrimRight(fraction, "0")
	e := 0
	if len(exponent) > 0 {
		var err error
		if e, err = strconv.Atoi(string(exponent)); err != nil {
			return "", false
		}
	}
	// The integer has the digits of whole and fraction. A positive e-len(fraction) is the number of
	// zeros to append, a negative one the number of digits to cut.
	out := bytes.TrimLeft(append(bytes.Clone(whole), fraction...), "0")
	e -= len(fraction)
	if e < 0 {
		if len(out) < -e { // cannot happen for an integer
			return "", false
		}
		return string(out[:len(out)+e]), true
	}
	if e > 20-len(out) { // not len(out)+e, which may overflow
		return "", false
	}
	return string(append(out, bytes.Repeat([]byte{'0'}, e)...)), true
}

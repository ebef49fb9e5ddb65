//go:build go1.27

package value

import (
	"encoding/json"
	standard "encoding/json/v2"
	"errors"
	"io"
	"reflect"

	target "github.com/goccy/go-json/jsontext"
	engine "github.com/goccy/go-json/v2"
)

// From Go 1.27 on, encoding/json calls the methods MarshalJSONTo and UnmarshalJSONFrom, whose
// parameters are the Encoder and the Decoder of package encoding/json/jsontext. The engine only
// knows those of its own package jsontext. Functions for the engine call the methods that decode;
// with functions that encode, the engine fails for pointers to pointers, so values of types with
// these methods are encoded by the standard library. Older versions of Go do not have these
// packages; see methods_old.go.

var (
	standardReader = reflect.TypeFor[standard.UnmarshalerFrom]()
	standardWriter = reflect.TypeFor[standard.MarshalerTo]()

	standardReaders = engine.UnmarshalFromFunc(func(d *target.Decoder, v standard.UnmarshalerFrom) error {
		if isName(d.StackIndex(d.StackDepth())) {
			return errors.ErrUnsupported // a key of type json.Number
		}
		text, err := d.ReadValue()
		if err != nil {
			return err
		}
		return standard.Unmarshal(text, v, json.DefaultOptionsV1())
	})
)

// standardMarshal encodes v with the standard library, in the form of [form].
func standardMarshal(to io.Writer, v any) error {
	return standard.MarshalWrite(to, v, standard.Deterministic(true),
		json.FormatByteArrayAsArray(true),
		json.FormatBytesWithLegacySemantics(true),
		json.FormatDurationAsNano(true),
		json.OmitEmptyWithLegacySemantics(true),
		json.StringifyWithLegacySemantics(true),
		json.ReportErrorsWithLegacySemantics(true))
}

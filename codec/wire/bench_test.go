package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// call is a typical message: an object some levels deep, short names, short and long strings, a few
// numbers.
var call = []byte(`{"id":"call-17","name":"search_documents","count":25,"ratio":0.75,"tags":["alpha","beta","gamma","delta"],` +
	`"inner":{"id":42,"name":"The quick brown fox jumps over the lazy dog, and then over the next one as well.","count":1234567890},` +
	`"list":[{"id":1,"name":"first result"},{"id":2,"name":"second result\nwith a line break"},{"id":3,"name":"drittes Ergebnis für später"}],` +
	`"free":{"query":"select * from t where a = 1","limit":100,"nested":[{"a":1.5,"b":[true,false,null]},{"a":2.5,"b":[]}]},"unknown":{"x":1}}`)

func BenchmarkValid(b *testing.B) {
	b.SetBytes(int64(len(call)))
	for b.Loop() {
		if err := codec.Valid(call); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStandardValid(b *testing.B) {
	b.SetBytes(int64(len(call)))
	for b.Loop() {
		if !json.Valid(call) {
			b.Fatal("invalid")
		}
	}
}

func BenchmarkRead(b *testing.B) {
	b.SetBytes(int64(len(call)))
	b.ReportAllocs()
	for b.Loop() {
		var v flat
		if err := codec.Unmarshal(call, &v); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadAgain(b *testing.B) {
	b.SetBytes(int64(len(call)))
	b.ReportAllocs()
	r := newReader(nil)
	for b.Loop() {
		r.Again(call)
		var v flat
		v.DecodeJSON(r)
		if r.End(); errorOf(r) != nil {
			b.Fatal(errorOf(r))
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	var v flat
	if err := codec.Unmarshal(call, &v); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(call)))
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		out, err := codec.Append(buf[:0], &v)
		if err != nil {
			b.Fatal(err)
		}
		buf = out
	}
}

func BenchmarkLongString(b *testing.B) {
	for name, s := range map[string]string{
		"ASCII":     strings.Repeat("The quick brown fox. ", 1000),
		"Cyrillic":  strings.Repeat("Съешь же ещё этих мягких. ", 500),
		"CJK":       strings.Repeat("敏捷的棕色狐狸跳过了懒狗。", 500),
		"escapes":   strings.Repeat("line\n", 4000),
		"one space": " ",
	} {
		w := wire.NewWriter(nil)
		w.Text(s)
		text := w.Bytes()
		b.Run(name+"/read", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			r := newReader(nil)
			for b.Loop() {
				r.Again(text)
				r.TextBytes()
			}
		})
		b.Run(name+"/write", func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			w := wire.NewWriter(nil)
			for b.Loop() {
				w.Reset(w.Bytes()[:0])
				w.Text(s)
			}
		})
	}
}

func BenchmarkNumber(b *testing.B) {
	for _, text := range []string{"7", "1234567890", "-12345678901234567890", "0.75", "1e3", "3.141592653589793"} {
		b.Run(text+"/Float", func(b *testing.B) {
			r := newReader(nil)
			for b.Loop() {
				r.Again([]byte(text))
				r.Float()
			}
		})
	}
}

// flat has the members of record and selects them with a switch on the name.
type flat struct {
	ID    codec.Scalar
	Name  string
	Count int64
	Ratio float64
	Tags  []string
	Inner *flat
	List  []flat
	Free  json.RawMessage
	Extra wire.Extra
}

func (v *flat) DecodeJSON(r *wire.Reader) {
	*v = flat{}
	for r.Object(); r.More(); {
		switch key := r.Key(); key {
		case "id":
			v.ID = codec.ReadScalar(r, wire.ScalarString|wire.ScalarInteger)
		case "name":
			v.Name = r.Text()
		case "count":
			v.Count = r.IntExact(&v.Extra, key)
		case "ratio":
			v.Ratio = r.FloatExact(&v.Extra, key)
		case "tags":
			v.Tags = wire.ReadTexts[string](r)
		case "inner":
			v.Inner = new(flat)
			v.Inner.DecodeJSON(r)
		case "list":
			v.List = wire.DecodeList[flat](r)
		case "free":
			v.Free = r.Raw()
		default:
			r.Keep(&v.Extra, key)
		}
	}
}

func (v *flat) EncodeJSON(w *wire.Writer) {
	start := w.Begin()
	w.Key(`,"id":`)
	v.ID.EncodeJSON(w)
	w.Key(`,"name":`)
	w.Text(v.Name)
	w.Key(`,"count":`)
	w.IntExact(v.Count, v.Extra, "count")
	w.Key(`,"ratio":`)
	w.FloatExact(v.Ratio, v.Extra, "ratio")
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

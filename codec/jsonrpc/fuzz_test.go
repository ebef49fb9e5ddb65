package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// FuzzMessage checks that a message is accepted or refused with the right error. An accepted
// message must be written as an equal JSON value and parsed again as the same message. A batch of
// the text must give the same result.
func FuzzMessage(f *testing.F) {
	for _, c := range hostile.All(hostile.Messages()) {
		f.Add([]byte(c.Text))
	}
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1e3,"method":"m","params":{"a":[1, 2.0]},"x":null}`,
		`{"jsonrpc":"2.0","id":"\u0041","result":{},"params":[]}`,
		`{"id":null,"error":{"message":"m","code":-1e99,"data":null,"x":{}},"jsonrpc":"2.0"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Parse(data)
		checkItem(t, data, m, err)
		if codec.Valid(data) != nil {
			if CodeOf(err) != CodeParseError {
				t.Fatalf("malformed, but %v", err)
			}
			return
		}
		batch := append(append([]byte("[\n"), data...), ",\n {} ]"...)
		items, batchErr := ParseBatch(batch)
		if batchErr != nil || len(items) != 2 {
			if errors.Is(batchErr, jsonfault.Depth) { // one more level
				return
			}
			t.Fatalf("%d items, %v", len(items), batchErr)
		}
		if diff := cmp.Diff(m, items[0].Message); diff != "" {
			t.Fatalf("in a batch (-alone +batch):\n%s", diff)
		}
		if (err == nil) != (items[0].Err == nil) {
			t.Fatalf("alone: %v, in a batch: %v", err, items[0].Err)
		}
		for i, item := range items {
			e, ok := errors.AsType[*codec.Error](item.Err)
			if !ok {
				continue
			}
			if line, col := codec.Position(batch, int(e.Offset)); line != e.Line || col != e.Column {
				t.Fatalf("item %d: offset %d is %d:%d: %v", i, e.Offset, line, col, e)
			}
		}
		if err != nil {
			return
		}

		out, err := m.AppendJSON(nil)
		if err != nil {
			t.Fatalf("%s is not written: %v", data, err)
		}
		for i := range data { // decoded values must not change with the input
			data[i] ^= 0x55
		}
		if again, err := m.AppendJSON(nil); err != nil || !bytes.Equal(out, again) {
			t.Fatalf("%s became %s with the input, %v", out, again, err)
		}
		for i := range data {
			data[i] ^= 0x55
		}
		again, err := Parse(out)
		if err != nil {
			t.Fatalf("%s is not read back: %v", out, err)
		}
		if !sameJSON(t, data, out) {
			t.Fatalf("%s became %s", data, out)
		}
		if second, err := again.AppendJSON(nil); err != nil || !bytes.Equal(out, second) {
			t.Fatalf("%s became %s, %v", out, second, err)
		}
	})
}

// checkItem checks the rules for every message, accepted or refused.
func checkItem(t *testing.T, data []byte, m Message, err error) {
	if err == nil {
		if m.Kind == KindInvalid || m.ID.IsZero() && (m.Kind == KindRequest || m.Kind == KindResponse) {
			t.Fatalf("taken: %+v", m)
		}
		return
	}
	e, ok := errors.AsType[*codec.Error](err)
	if !ok || e.Offset < 0 || e.Offset > int64(len(data)) {
		t.Fatalf("%v", err)
	}
	switch code := CodeOf(err); code {
	case CodeParseError:
		if codec.Valid(data) == nil {
			t.Fatalf("well formed, but %v", err)
		}
	case CodeInvalidRequest, CodeInvalidParams:
		if codec.Valid(data) != nil {
			t.Fatalf("malformed, but %v", err)
		}
		if at, ok := codec.Locate(data, e.Pointer); !ok || int64(at) != e.Offset {
			t.Fatalf("%q is at %d: %v", e.Pointer, at, err)
		}
	default:
		t.Fatalf("code %d for %v", code, err)
	}
}

// sameJSON compares well-formed texts. It ignores white space and the order of members, and
// compares numbers by their text.
func sameJSON(t *testing.T, a, b []byte) bool {
	var values [2]any
	for i, text := range [][]byte{a, b} {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&values[i]); err != nil {
			t.Fatal(err)
		}
		// The code of an error is a number that may be written in another form.
		if m, ok := values[i].(map[string]any); ok {
			if e, ok := m["error"].(map[string]any); ok {
				if n, ok := e["code"].(json.Number); ok {
					v, exact := codec.Number(n).Int()
					if exact {
						e["code"] = v
					}
				}
			}
		}
	}
	return cmp.Equal(values[0], values[1])
}

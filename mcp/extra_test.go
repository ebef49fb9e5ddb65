package mcp_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/schema"
)

// extraOf returns the Extra of a value that has one.
func extraOf(v mcp.Value) (x *wire.Extra, ok bool) {
	p := reflect.ValueOf(v).Elem()
	if p.Kind() != reflect.Struct || !p.FieldByName("Extra").IsValid() {
		return nil, false
	}
	return p.FieldByName("Extra").Addr().Interface().(*wire.Extra), true
}

// structs returns the names of the definitions whose Go type has an Extra.
func structs(t *testing.T) (names []string) {
	t.Helper()
	for _, rev := range schema.Revisions() {
		src, err := schema.Read(rev)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := load.Parse(rev, rev+".json", src)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range doc.Names() {
			if v := mcp.New(name); v != nil {
				if _, ok := extraOf(v); ok {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// An Extra can be moved from each type to each other type. No name is written twice and no member
// is lost. Required members that were missing in the first type are written by the second.
func TestExtraMovedToAnotherType(t *testing.T) {
	names := structs(t)
	for _, from := range names {
		source := mcp.New(from)
		if err := codec.Unmarshal([]byte(`{"x-none":1}`), source); err != nil {
			continue // a type that cannot be decoded without certain members
		}
		for _, to := range names {
			target := mcp.New(to)
			if reflect.TypeOf(source) == reflect.TypeOf(target) {
				continue
			}
			x, _ := extraOf(target)
			plain, err := codec.Marshal(target)
			if err != nil {
				continue // a type that cannot be encoded without a value for a union
			}
			// The text has all members that the target writes. Those that the source type does not
			// know are unknown members of the source.
			text := `{"x-none":1` + strings.TrimSuffix(","+string(plain[1:len(plain)-1]), ",") + `}`
			moved := mcp.New(from)
			if err := codec.Unmarshal([]byte(text), moved); err != nil {
				moved = source
			}
			y, _ := extraOf(moved)
			*x = *y
			out, err := codec.Marshal(target)
			if err != nil {
				t.Fatalf("%s with the Extra of %s: %v", to, from, err)
			}
			if err := codec.Valid(out); err != nil {
				t.Fatalf("%s with the Extra of %s: %s: %v", to, from, out, err)
			}
			var all members
			if err := codec.Unmarshal(out, &all); err != nil {
				t.Fatal(err)
			}
			for name := range y.All() {
				if !all.Has(name) {
					t.Fatalf("%s with the Extra of %s: %s has lost %q", to, from, out, name)
				}
			}
			var before members
			if err := codec.Unmarshal(plain, &before); err != nil {
				t.Fatal(err)
			}
			for name, raw := range before.All() {
				if got, _ := all.Get(name); string(got) != string(raw) {
					t.Fatalf("%s with the Extra of %s: %s, and without %s", to, from, out, plain)
				}
			}
		}
	}
}

// members decodes any object, with all members in the Extra.
type members struct{ wire.Extra }

func (m *members) DecodeJSON(r *wire.Reader) {
	r.Object()
	for _, ok := r.NextKey(); ok; _, ok = r.NextKey() {
		r.Extra((*wire.Extra)(&m.Extra))
	}
}

func TestExtraOfAnotherTypeByExample(t *testing.T) {
	image := decode[mcp.ImageContent](t, `{"type":"image","text":"alt text","more":1}`)
	for _, c := range []struct {
		v    codec.Encoder
		want string
	}{
		{&mcp.TextContent{Text: "real", Extra: image.Extra}, `{"type":"text","text":"real","more":1}`},
		{&mcp.TextContent{Extra: image.Extra}, `{"type":"text","text":"","more":1}`},
		{&mcp.ImageContent{Extra: image.Extra}, `{"type":"image","text":"alt text","more":1}`},
		{&jsonrpc.Message{Kind: jsonrpc.KindNotification, Method: "x", Extra: decode[mcp.Task](t, `{"jsonrpc":"1.0","a":1}`).Extra}, `{"jsonrpc":"2.0","method":"x","a":1}`},
		{&jsonrpc.Error{Code: 1, Message: "m", Extra: decode[mcp.Task](t, `{"code":"1","message":"y","a":1}`).Extra}, `{"code":1,"message":"m","a":1}`},
		{&mcp.Task{Extra: parsed(t, `{"jsonrpc":"2.0","method":"x","taskId":"t","b":2}`).Extra}, `{"createdAt":"","lastUpdatedAt":"","status":"","taskId":"","ttl":null,"b":2}`},
	} {
		same(t, "written", c.want, encode(t, c.v))
	}

	// The exact text of a number in an Extra does not replace the value of a field of another type.
	huge := decode[mcp.Task](t, `{"taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttl":1e400}`)
	same(t, "written", `{"ttl":9223372036854775807}`, encode(t, &mcp.TaskMetadata{TTL: huge.TTL, Extra: huge.Extra}))
}

func parsed(t *testing.T, text string) jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

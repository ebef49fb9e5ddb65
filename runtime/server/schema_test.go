//lint:file-ignore SA5008 The tags are odd on purpose.

package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/server"
)

// Types with methods, and various structs.
type (
	shouted struct{ text string } // decoded and encoded as text
	hue     int                   // decoded and encoded as text
	posted  int                   // encoded as text, decoded as a number
	wrapped struct{ v any }       // decoded and encoded as any JSON
	octet   byte
	ident   struct {
		ID int `json:"id"`
	}
	hidden struct {
		Y int `json:"y"`
	}
	free     interface{}
	nick     string
	opaque   struct{ _ int }
	shadowed struct {
		ident
		ID string `json:"id"`
	}
	Pointed struct {
		Z int `json:"z"`
	}
	throughPointer struct {
		*Pointed
		A int `json:"a"`
	}
	inner struct {
		hidden
		Z int
	}
)

func (s shouted) MarshalText() ([]byte, error) { return []byte(s.text + "!"), nil }
func (s *shouted) UnmarshalText(b []byte) error {
	s.text = strings.TrimSuffix(string(b), "!")
	return nil
}
func (h hue) MarshalText() ([]byte, error)         { return []byte([]string{"red", "green"}[h]), nil }
func (h *hue) UnmarshalText(b []byte) error        { *h = hue(strings.Index("rg", string(b[:1]))); return nil }
func (p posted) MarshalText() ([]byte, error)      { return []byte("posted"), nil }
func (w wrapped) MarshalJSON() ([]byte, error)     { return json.Marshal(w.v) }
func (w *wrapped) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &w.v) }

// member is a struct with a value of type T.
type member[T any] struct {
	V T `json:"v"`
}

// roundTrip returns each value from a tool with an inferred schema, and sends it back as an
// argument.
func roundTrip[T any](t *testing.T, want string, values ...T) {
	t.Helper()
	typ := fmt.Sprintf("%T", *new(T))
	schema, err := server.SchemaFor[member[T]]()
	if err != nil {
		t.Errorf("%s: %v", typ, err)
		return
	}
	if full := `{"type":"object","properties":{"v":` + want + `},"required":["v"],"additionalProperties":false}`; string(schema) != full {
		t.Errorf("%s: schema\n%s, want\n%s", typ, schema, full)
	}
	s := newServer(t, server.Options{})
	if err := server.AddTool(s, "echo", "", func(_ context.Context, _ *server.Call, in member[T]) (member[T], error) { return in, nil }).Err(); err != nil {
		t.Errorf("%s: %v", typ, err)
		return
	}
	for i, v := range values {
		server.AddTool(s, fmt.Sprint("give", i), "", func(context.Context, *server.Call, struct{}) (member[T], error) { return member[T]{v}, nil })
	}
	c := connect(t, s, clientConfig{})
	for i, v := range values {
		output, code := c.call("tools/call", fmt.Sprintf(`{"name":"give%d"}`, i))
		if code != 0 || strings.Contains(output, `"isError"`) {
			t.Errorf("%s: %+v as output: %d %s", typ, v, code, output)
			continue
		}
		out := text(t, output)
		back, code := c.call("tools/call", `{"name":"echo","arguments":`+out+`}`)
		if code != 0 || strings.Contains(back, `"isError"`) || text(t, back) != out {
			t.Errorf("%s: %s as argument: %d %s", typ, out, code, back)
		}
	}
}

// The schema inferred for a type describes its JSON.
//
// Proves TOOL-07, SDK-02.
func TestInferredSchemaMatchesJSON(t *testing.T) {
	const integer, text, date, anything = `{"type":"integer"}`, `{"type":"string"}`, `{"type":"string","format":"date-time"}`, `{}`
	roundTrip(t, integer, 0, math.MaxInt64, math.MinInt64)
	roundTrip(t, `{"type":"integer","minimum":-128,"maximum":127}`, int8(-128), 127)
	roundTrip(t, `{"type":"integer","minimum":0}`, uint64(0), math.MaxUint64)
	roundTrip(t, `{"type":"integer","minimum":0,"maximum":4294967295}`, uint32(math.MaxUint32))
	roundTrip(t, `{"type":"number"}`, 1e300, 0.0, 5e-324)
	roundTrip(t, `{"type":"boolean"}`, true)
	roundTrip(t, text, "", "\U0001F600")
	roundTrip(t, text, nick("n"))
	roundTrip(t, date, time.Time{}, time.Now().UTC())
	roundTrip(t, `{"type":["null","string"],"format":"date-time"}`, &time.Time{}, nil)
	roundTrip(t, `{"type":"integer","description":"a duration in nanoseconds"}`, time.Second)
	roundTrip(t, `{"type":"string","contentEncoding":"base64"}`, []byte(nil), []byte("a"))
	roundTrip(t, `{"type":"string","contentEncoding":"base64"}`, []octet{1, 2})
	roundTrip(t, `{"type":"array","items":{"type":"integer","minimum":0,"maximum":255},"minItems":3,"maxItems":3}`, [3]byte{1, 2, 3})
	roundTrip(t, `{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2}`, [2]int{1, 2})
	roundTrip(t, `{"type":"array","items":{"type":"integer"}}`, []int(nil), []int{1})
	roundTrip(t, `{"type":"array","items":{"type":["null","integer"]}}`, []*int{nil, new(1)})
	roundTrip(t, `{"type":"array","items":{"type":"array","items":{}}}`, [][]any{{nil, "x"}, nil})
	roundTrip(t, `{"type":"object","additionalProperties":{"type":"integer"}}`, map[string]int(nil), map[string]int{"a": 1})
	roundTrip(t, `{"type":"object","additionalProperties":{"type":"string"}}`, map[int]string{1: "a"})
	roundTrip(t, `{"type":"object","additionalProperties":{"type":"integer"}}`, map[netip.Addr]int{netip.MustParseAddr("::1"): 1})
	roundTrip(t, `{"type":"object","additionalProperties":{"type":"array","items":{"type":"integer"}}}`, map[string][]int{"a": nil})
	roundTrip(t, `{"type":"object","additionalProperties":{"type":"object","additionalProperties":{}}}`, map[string]map[string]any{"a": nil, "b": {"c": nil}})
	roundTrip(t, `{"type":["null","integer"]}`, (*int)(nil), new(5))
	roundTrip(t, `{"type":["null","integer"]}`, (**int)(nil), new(new(5)))
	roundTrip(t, `{"type":["null","array"],"items":{"type":"integer"}}`, (*[]int)(nil), &[]int{1})
	roundTrip[any](t, anything, nil, 1.5, "x", []any{}, map[string]any{})
	roundTrip[free](t, anything, nil, 1.5, "x")
	roundTrip(t, anything, (*any)(nil), new(any("x")))
	roundTrip(t, anything, json.RawMessage(`1`), nil)
	roundTrip(t, `{"type":"number"}`, json.Number("12.50"), "")
	roundTrip(t, `{"type":"number"}`, codec.Number("1e300"))
	roundTrip(t, text, shouted{"a"})
	roundTrip(t, `{"type":["null","string"]}`, &shouted{"a"}, nil)
	roundTrip(t, text, hue(1))
	roundTrip(t, `{"type":"array","items":{"type":"string"}}`, []hue{0, 1})
	roundTrip(t, anything, wrapped{1.5}, wrapped{[]any{"x"}})
	roundTrip(t, text, netip.MustParseAddr("1.2.3.4"))
	roundTrip(t, text, netip.MustParsePrefix("1.2.3.0/24"))
	roundTrip(t, text, net.IPv4(1, 2, 3, 4), nil)
	roundTrip(t, text, *regexp.MustCompile("a+"))
	roundTrip(t, integer, *big.NewInt(5))
	roundTrip(t, `{"type":["null","integer"]}`, big.NewInt(5), nil, new(big.Int).Lsh(big.NewInt(1), 100))
	roundTrip(t, text, *big.NewFloat(5))
	roundTrip(t, text, *big.NewRat(1, 2))
	roundTrip(t, text, slog.LevelWarn)
	roundTrip(t, anything, mcp.TextContent{Text: "a"})
	roundTrip(t, anything, mcp.Tool{Name: "a"})
	roundTrip(t, text, mcp.RoleUser)
	roundTrip(t, `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`, shadowed{ident{1}, "x"})
	roundTrip(t, `{"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`,
		throughPointer{nil, 1}, throughPointer{&Pointed{2}, 1})
	roundTrip(t, `{"type":"object","properties":{"y":{"type":"integer"},"Z":{"type":"integer"}},"required":["y","Z"],"additionalProperties":false}`, inner{hidden{1}, 2})
	roundTrip(t, `{"type":"object","additionalProperties":false}`, struct{}{})
	roundTrip(t, `{"type":"object","additionalProperties":false}`, opaque{})
	roundTrip(t, `{"type":"object","properties":{"n":{"type":"string"},"f":{"type":["null","string"]},"b":{"type":"string"},"s":{"type":"string"}},"required":["n","f","b","s"],"additionalProperties":false}`, struct {
		N int      `json:"n,string"`
		F *float64 `json:"f,string"`
		B bool     `json:"b,string"`
		S string   `json:"s,string"`
	}{5, new(1.5), true, "x"})
	roundTrip(t, `{"type":"object","properties":{"-":{"type":"integer"}},"required":["-"],"additionalProperties":false}`, struct {
		N int `json:"-,"`
		M int `json:"-"`
	}{5, 6})
	roundTrip(t, `{"type":"object","properties":{"t":{"type":"string","format":"date-time"},"e":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":false}},"required":["e"],"additionalProperties":false}`, struct {
		T time.Time `json:"t,omitzero"`
		E ident     `json:"e"`
	}{})
	roundTrip(t, `{"type":"object","properties":{"a/b~c d":{"type":"integer"},"é":{"type":"integer"}},"required":["a/b~c d","é"],"additionalProperties":false}`, struct {
		N int `json:"a/b~c d"`
		E int `json:"é"`
	}{5, 6})
	roundTrip(t, `{"type":"object","properties":{"a":{"type":"integer"},"A":{"type":"integer"}},"required":["a","A"],"additionalProperties":false}`, struct {
		A int `json:"a"`
		B int `json:"A"`
	}{1, 2})
}

// Types that are encoded and decoded differently have a schema for each direction.
func TestArgumentAndOutputSchemasMayDiffer(t *testing.T) {
	s := newServer(t, server.Options{})
	server.AddTool(s, "a", "", func(_ context.Context, _ *server.Call, in member[posted]) (member[posted], error) { return in, nil })
	server.AddTool(s, "b", "", func(context.Context, *server.Call, struct{}) (member[error], error) {
		return member[error]{errors.New("x")}, nil
	})
	server.AddTool(s, "c", "", func(context.Context, *server.Call, struct{}) (member[fmt.Stringer], error) {
		return member[fmt.Stringer]{&url.URL{Path: "x"}}, nil
	})
	c := connect(t, s, clientConfig{})
	c.expect("tools/call", `{"name":"a","arguments":{"v":3}}`, `{"content":[{"type":"text","text":"{\"v\":\"posted\"}"}],"structuredContent":{"v":"posted"}}`)
	c.expect("tools/call", `{"name":"b"}`, `{"content":[{"type":"text","text":"{\"v\":{}}"}],"structuredContent":{"v":{}}}`)
	if result, code := c.call("tools/call", `{"name":"c"}`); code != 0 || strings.Contains(result, "isError") {
		t.Error(code, result)
	}
}

type node struct {
	Kids []node
}

type badTag struct {
	X int `json:"x" jsonschema:"how many,minimum=1,maximum=10"`
}

// AddTool fails for a type without a schema, and names the reason.
func TestAddToolRejectsTypesWithoutSchema(t *testing.T) {
	check := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.HasPrefix(err.Error(), `server: tool "x": arguments: no schema for type `) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	check(addToolError[node](t), "field Kids: type server_test.node contains itself; give it the method JSONSchema")
	check(addToolError[member[chan int]](t), "field V: type chan int has no JSON form")
	check(addToolError[member[func()]](t), "field V: type func() has no JSON form")
	check(addToolError[member[[]complex128]](t), "field V: type complex128 has no JSON form")
	check(addToolError[member[map[bool]int]](t), "field V: type bool cannot be the key of a JSON object")
	check(addToolError[member[error]](t), "field V: cannot decode into interface type error")
	check(addToolError[badTag](t), `field X: tag jsonschema:"how many,minimum=1,maximum=10" is a description and cannot contain the keyword minimum=; write the tag minimum:"1" beside it`)
	check(addToolError[struct {
		X int `jsonschema:"Min=1"`
	}](t), `cannot contain the keyword Min=; write the tag minimum:"1" beside it`)
	check(addToolError[struct {
		X int `jsonschema:"required,minimum=1"`
	}](t), `cannot contain the keyword minimum=; write the tag minimum:"1" beside it`)
	check(addToolError[struct {
		X int `jsonschema:"required"`
	}](t), `cannot contain the keyword required; a field is required unless its json tag says omitempty or omitzero`)
	check(addToolError[struct {
		X []int `json:"x,string"`
	}](t), "field X: json tag option string does not apply to type []int")
	check(addToolError[struct {
		X time.Time `json:"x,format:RFC3339"`
	}](t), `field X: option "format:RFC3339" in the tag json:"x,format:RFC3339" is not supported`)
	check(addToolError[struct {
		X int `json:"a'b"`
	}](t), `field X: name in the tag json:"a'b" has quotes`)
	check(addToolError[struct {
		X int
		Y int `json:"X"`
	}](t), `field Y: field X has the same name "X"`)
	check(addToolError[struct{ *hidden }](t), "field hidden: cannot decode into an embedded pointer to the unexported type")
	check(addToolError[wrapped](t), "server_test.wrapped: its JSON may not be an object; give the tool a schema, or the type the method JSONSchema")
	if _, err := server.SchemaFor[described](); err != nil {
		t.Error(err)
	}
}

// described has descriptions that resemble keywords.
type described struct {
	A int `jsonschema:"one of red, green"`
	B int `jsonschema:"the unit, x=5 for instance"`
	C int `jsonschema:"type, if known"`
	D int `jsonschema:"the default is 5, minimum 1"`
}

func addToolError[In any](t *testing.T) error {
	s := newServer(t, server.Options{})
	err := server.AddTool(s, "x", "", func(context.Context, *server.Call, In) (string, error) { return "", nil }).Err()
	return err
}

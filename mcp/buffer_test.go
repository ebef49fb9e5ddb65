package mcp_test

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"weak"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/value"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
)

// kept is the result of decoding: a value, or an error and the parts that could be read.
type kept struct {
	value codec.Encoder // nil if nothing can be written
	err   error
}

// String returns a text that shows every part of the result.
func (k kept) String() string {
	var text []byte
	var err error
	if k.value != nil {
		text, err = codec.Marshal(k.value)
	}
	var b strings.Builder
	b.Write(text)
	for _, err := range []error{err, k.err} {
		if err != nil {
			b.WriteString(" " + err.Error())
		}
	}
	return b.String()
}

// list holds several values.
type list []codec.Encoder

func (l list) EncodeJSON(w *wire.Writer) {
	wire.EncodeListFunc(w, l, func(w *wire.Writer, v codec.Encoder) { v.EncodeJSON(w) })
}

// entryPoint is one way to decode a whole input.
type entryPoint struct {
	name   string
	decode func(data []byte, opts ...codec.Option) kept
}

func message(m jsonrpc.Message, err error) kept { return kept{&m, err} }

func typed[T codec.Encoder](v T, err error) kept {
	if err != nil {
		return kept{nil, err}
	}
	return kept{v, nil}
}

// ofMessages are the ways to decode a message or a batch. The same Conversation decodes all inputs.
func ofMessages(conversation *mcp.Conversation) []entryPoint {
	return []entryPoint{
		{"jsonrpc.Parse", func(data []byte, opts ...codec.Option) kept { return message(jsonrpc.Parse(data, opts...)) }},
		{"jsonrpc.ParseBatch", func(data []byte, opts ...codec.Option) kept {
			items, err := jsonrpc.ParseBatch(data, opts...)
			var l list
			for _, item := range items {
				if item.Err == nil {
					l = append(l, &item.Message)
				}
			}
			return kept{l, err}
		}},
		{"Message.UnmarshalJSON", func(data []byte, _ ...codec.Option) kept {
			m := new(jsonrpc.Message)
			return kept{m, json.Unmarshal(data, m)}
		}},
		{"mcp.DecodeRequest", func(data []byte, opts ...codec.Option) kept { return message(mcp.DecodeRequest(data, opts...)) }},
		{"mcp.DecodeResponse", func(data []byte, opts ...codec.Option) kept {
			return message(mcp.DecodeResponse("tools/call", data, opts...))
		}},
		{"Conversation.Decode", func(data []byte, opts ...codec.Option) kept {
			conversation.Expect(codec.IntScalar(1), "tools/call")
			m, err := conversation.Decode(data, opts...)
			return kept{&m.Message, err}
		}},
		{"Conversation.Next", func(data []byte, opts ...codec.Option) kept {
			parsed, err := jsonrpc.Parse(data, opts...)
			if err != nil {
				return kept{nil, err}
			}
			m, err := conversation.Next(parsed)
			return kept{&m.Message, err}
		}},
		{"codec.Valid", func(data []byte, opts ...codec.Option) kept { return kept{nil, codec.Valid(data, opts...)} }},
		{"mcp.Validate", func(data []byte, _ ...codec.Option) kept {
			return kept{nil, mcp.Validate(mcp.Revision20251125, "JSONRPCMessage", data)}
		}},
		{"mcp.New", func(data []byte, opts ...codec.Option) kept {
			v := mcp.New("JSONRPCMessage")
			return typed(v, codec.Unmarshal(data, v, opts...))
		}},
		{"value.Of", func(data []byte, opts ...codec.Option) kept {
			var v struct {
				ID     any                        `json:"id"`
				Method string                     `json:"method"`
				Params map[string]json.RawMessage `json:"params"`
				Result any                        `json:"result"`
			}
			return typed(value.Of(&v), codec.Unmarshal(data, value.Of(&v), opts...))
		}},
	}
}

// ofPayload are the ways to decode params or a result alone.
func ofPayload(p hostile.Payload) []entryPoint {
	return []entryPoint{
		{"mcp.DecodeParams, DecodeResult", func(data []byte, opts ...codec.Option) kept {
			if p.IsResult() {
				return typed(mcp.DecodeResult(p.Method, data, opts...))
			}
			return typed(mcp.DecodeParams(p.Method, data, opts...))
		}},
		{"json.Unmarshal", func(data []byte, _ ...codec.Option) kept {
			v, ok := mcp.New(p.Def).(json.Unmarshaler)
			if !ok {
				return kept{}
			}
			return typed(v.(codec.Encoder), json.Unmarshal(data, v))
		}},
		{"tasks.DecodeParams, DecodeResult", func(data []byte, opts ...codec.Option) kept {
			if p.IsResult() {
				return typed(tasks.DecodeResult("tasks/get", data, opts...))
			}
			return typed(tasks.DecodeParams("tasks/update", data, opts...))
		}},
		{"tasks.Validate", func(data []byte, _ ...codec.Option) kept {
			return kept{nil, tasks.Validate(tasks.RevisionExtTasks, "DetailedTask", data)}
		}},
		{"codec.Unmarshal of an Extra", func(data []byte, opts ...codec.Option) kept {
			v := new(mcp.Result)
			return typed(v, codec.Unmarshal(data, v, opts...))
		}},
	}
}

// decodeAll decodes all hostile inputs in every way. Each input has a buffer of its own. decodeAll
// passes the buffer and the result to after.
func decodeAll(after func(name string, buffer []byte, k kept)) {
	var conversation mcp.Conversation
	decode := func(e entryPoint, text string) {
		buffer := append(make([]byte, 0, len(text)+64), text...) // so large that it shares its memory with nothing
		after(e.name+": "+text, buffer, e.decode(buffer))
	}
	for _, e := range ofMessages(&conversation) {
		for _, m := range hostile.All(hostile.Messages()) {
			decode(e, m.Text)
		}
		for _, p := range hostile.All(hostile.Payloads()) {
			for _, late := range []bool{false, true} {
				text, _ := p.Message(late)
				decode(e, text)
				decode(e, `[`+text+`]`)
			}
		}
	}
	for _, p := range hostile.All(hostile.Payloads()) {
		for _, e := range ofPayload(p) {
			decode(e, p.Text)
		}
	}
}

func TestDecodedValuesSurviveOverwrittenBuffer(t *testing.T) {
	decodeAll(func(name string, buffer []byte, k kept) {
		before := k.String()
		for i := range buffer {
			buffer[i] = '?'
		}
		if after := k.String(); after != before {
			t.Errorf("%s\nwas    %s\nbecame %s", name, before, after)
		}
	})
}

func TestDecodedValuesReleaseBuffer(t *testing.T) {
	type held struct {
		name   string
		buffer weak.Pointer[byte]
		kept   kept
	}
	var all []held
	decodeAll(func(name string, buffer []byte, k kept) {
		all = append(all, held{name, weak.Make(&buffer[:1][0]), k})
	})
	alive := func() (names []string) {
		for _, h := range all {
			if h.buffer.Value() != nil {
				names = append(names, h.name)
			}
		}
		return names
	}
	runtime.GC()
	for range 10 { // what a register or the stack still points to goes away
		if len(alive()) == 0 {
			break
		}
		runtime.GC()
	}
	if names := alive(); len(names) > 0 {
		t.Errorf("%d of %d buffers are still there, such as that of\n%s", len(names), len(all), names[0])
	}
	runtime.KeepAlive(all)
}

// With NoCopy, only raw values are parts of the buffer.
func TestNoCopySharesRawValuesOnly(t *testing.T) {
	for _, tt := range []struct{ name, method, text, want string }{
		{"params of an unknown method", "", `{"jsonrpc":"2.0","id":"7","method":"x/7","params":{"a":7}}`, `{"jsonrpc":"2.0","id":"7","method":"x/7","params":{"a":8}}`},
		{"unknown members", "", `{"jsonrpc":"2.0","id":7,"method":"ping","x7":[7]}`, `{"jsonrpc":"2.0","id":7,"method":"ping","x7":[8]}`},
		{"arguments", "", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"n7","arguments":{"a7":"7"},"x7":7}}`,
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"n7","arguments":{"a8":"8"},"x7":8}}`},
		{"arguments in front of the method", "", `{"jsonrpc":"2.0","id":7,"params":{"name":"n7","arguments":{"a7":"7"}},"method":"tools/call"}`,
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"n7","arguments":{"a8":"8"}}}`},
		{"a result", "tools/call", `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"7","annotations":{"priority":0.7}},{"type":"x7","a":7}],"structuredContent":{"b":7}}}`,
			`{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"7","annotations":{"priority":0.7}},{"type":"x8","a":8}],"structuredContent":{"b":8}}}`},
		{"numbers that do not fit", "sampling/createMessage", `{"jsonrpc":"2.0","id":77777777777777777777,"error":{"code":77777777777777777777,"message":"7","data":7}}`,
			`{"jsonrpc":"2.0","id":77777777777777777777,"error":{"code":77777777777777777777,"message":"7","data":8}}`},
	} {
		buffer := []byte(tt.text)
		m, err := mcp.DecodeResponse(tt.method, buffer, codec.NoCopy())
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		copy(buffer, bytes.ReplaceAll(buffer, []byte("7"), []byte("8")))
		same(t, tt.name, tt.want, encode(t, &m))
	}
}

// A raw value that shares the buffer has no spare capacity, so that appending to it makes a copy.
func TestNoCopyDoesNotLetAppendWriteIntoTheBuffer(t *testing.T) {
	const text = `{"name":"n","arguments":{"a":1},"x":[2]}`
	buffer := []byte(text)
	v, err := mcp.DecodeParams("tools/call", buffer, codec.NoCopy())
	if err != nil {
		t.Fatal(err)
	}
	p := v.(*mcp.CallToolRequestParams)
	x, _ := p.Extra.Get("x")
	for _, raw := range []json.RawMessage{p.Arguments, x} {
		if &raw[0] != &buffer[strings.Index(text, string(raw))] {
			t.Errorf("%s is a copy", raw)
		}
		_ = append(raw, "#####"...)
	}
	if string(buffer) != text {
		t.Errorf("the buffer became %s", buffer)
	}
}

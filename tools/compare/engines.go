package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/bytedance/sonic"
	goccy "github.com/goccy/go-json"

	"github.com/mcpwire/mcpwire/tools/compare/probe"
)

// engine returns a general JSON engine as a peer. It decodes arbitrary JSON with exact, into any
// with numbers as text, and everything else with unmarshal, into the structs below.
func engine(name, module, how string, unmarshal, exact func([]byte, any) error, marshal func(any) ([]byte, error)) Peer {
	return Peer{Name: name, Module: module, How: how, Attempt: func(in Input) probe.Trial {
		if in.Def == anyText {
			return probe.Run([]byte(in.Doc), "", func(doc []byte) (any, error) {
				v := new(typed)
				return v, exact(doc, &v.value)
			}, func(v any) ([]byte, error) { return marshal(v.(*typed).value) })
		}
		zero, ok := plainTypes[in.Def]
		if !ok {
			return probe.Trial{}
		}
		return probe.Run([]byte(in.Doc), "", func(doc []byte) (any, error) {
			v := zero()
			return v, unmarshal(doc, v)
		}, marshal)
	}}
}

// typed wraps a value of type any in a named type.
type typed struct{ value any }

// numberDecoder is implemented by the decoders of engines that can keep numbers as text.
type numberDecoder interface {
	UseNumber()
	Decode(v any) error
}

// decodeAll decodes a value and fails if more text follows.
func decodeAll(d numberDecoder, v any) error {
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return err
	}
	var more any
	if err := d.Decode(&more); err != io.EOF {
		return errors.New("text after the value")
	}
	return nil
}

func engines() []Peer {
	// Both are the standard configuration with the named exceptions.
	exact := sonic.Config{SortMapKeys: true, CompactMarshaler: true, CopyString: true, ValidateString: true, UseNumber: true}.Froze()
	out := sonic.Config{SortMapKeys: true, CompactMarshaler: true, CopyString: true, ValidateString: true}.Froze()
	return []Peer{
		engine("encoding/json", "encoding/json", "The standard library.", json.Unmarshal,
			func(doc []byte, v any) error { return decodeAll(json.NewDecoder(bytes.NewReader(doc)), v) }, probe.Marshal),
		engine("goccy", "github.com/goccy/go-json", "With default settings.", goccy.Unmarshal,
			func(doc []byte, v any) error { return decodeAll(goccy.NewDecoder(bytes.NewReader(doc)), v) },
			func(v any) ([]byte, error) { return goccy.MarshalWithOption(v, goccy.DisableHTMLEscape()) }),
		engine("sonic", "github.com/bytedance/sonic", "With its standard configuration, which validates.", sonic.ConfigStd.Unmarshal,
			exact.Unmarshal, out.Marshal),
	}
}

// plainTypes are the structs that a careful user of an engine would write: an optional member is a
// pointer or a slice, a member that the schema leaves open is raw, and a content block has the
// members of all types of content.
var plainTypes = map[string]func() any{
	"JSONRPCRequest":             func() any { return new(plainMessage) },
	"JSONRPCNotification":        func() any { return new(plainMessage) },
	"JSONRPCResponse":            func() any { return new(plainMessage) },
	"JSONRPCError":               func() any { return new(plainMessage) },
	"JSONRPCBatch":               func() any { return new([]plainMessage) },
	"CallToolRequestParams":      func() any { return new(plainCall) },
	"CallToolResult":             func() any { return new(plainResult) },
	"ProgressNotificationParams": func() any { return new(plainProgress) },
	"GetTaskResult":              func() any { return new(plainTask) },
}

type plainMessage struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitzero"`
	Method  *string         `json:"method,omitzero"`
	Params  json.RawMessage `json:"params,omitzero"`
	Result  json.RawMessage `json:"result,omitzero"`
	Error   *struct {
		Code    int64           `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitzero"`
	} `json:"error,omitzero"`
}

type plainCall struct {
	Meta      json.RawMessage            `json:"_meta,omitzero"`
	Name      string                     `json:"name"`
	Arguments map[string]json.RawMessage `json:"arguments,omitzero"`
}

type plainResult struct {
	Meta              json.RawMessage `json:"_meta,omitzero"`
	Content           []plainBlock    `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	IsError           *bool           `json:"isError,omitzero"`
}

type plainBlock struct {
	Type        string          `json:"type"`
	Text        *string         `json:"text,omitzero"`
	Data        *string         `json:"data,omitzero"`
	MIMEType    *string         `json:"mimeType,omitzero"`
	URI         *string         `json:"uri,omitzero"`
	Name        *string         `json:"name,omitzero"`
	Size        *int64          `json:"size,omitzero"`
	Resource    json.RawMessage `json:"resource,omitzero"`
	Meta        json.RawMessage `json:"_meta,omitzero"`
	Annotations *struct {
		Audience []string `json:"audience,omitzero"`
		Priority *float64 `json:"priority,omitzero"`
	} `json:"annotations,omitzero"`
}

type plainProgress struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Total    *float64        `json:"total,omitzero"`
	Message  *string         `json:"message,omitzero"`
}

type plainTask struct {
	TaskID        string  `json:"taskId"`
	Status        string  `json:"status"`
	StatusMessage *string `json:"statusMessage,omitzero"`
	CreatedAt     string  `json:"createdAt"`
	LastUpdatedAt string  `json:"lastUpdatedAt"`
	TTL           *int64  `json:"ttl"`
	PollInterval  *int64  `json:"pollInterval,omitzero"`
}

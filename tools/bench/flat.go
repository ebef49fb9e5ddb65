package main

import (
	"bytes"
	"encoding/json"

	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// Types that engines decode faster than those with unions. A union is one struct with the members
// of all variants, and the user of a value must select the relevant members. No value is read
// twice.

type flatBlock struct {
	Type              string                 `json:"type"`
	Text              *string                `json:"text,omitzero"`
	Data              *string                `json:"data,omitzero"`
	MIMEType          *string                `json:"mimeType,omitzero"`
	Resource          *plainResourceContents `json:"resource,omitzero"`
	URI               *string                `json:"uri,omitzero"`
	Name              *string                `json:"name,omitzero"`
	Title             *string                `json:"title,omitzero"`
	Description       *string                `json:"description,omitzero"`
	Size              *int64                 `json:"size,omitzero"`
	Icons             []plainIcon            `json:"icons,omitzero"`
	ID                *string                `json:"id,omitzero"`
	Input             json.RawMessage        `json:"input,omitzero"`
	ToolUseID         *string                `json:"toolUseId,omitzero"`
	Content           []flatBlock            `json:"content,omitzero"`
	StructuredContent json.RawMessage        `json:"structuredContent,omitzero"`
	IsError           *bool                  `json:"isError,omitzero"`
	Annotations       *plainAnnotations      `json:"annotations,omitzero"`
	Meta              json.RawMessage        `json:"_meta,omitzero"`
}

type flatCallResult struct {
	Meta              json.RawMessage `json:"_meta,omitzero"`
	Content           []flatBlock     `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	IsError           *bool           `json:"isError,omitzero"`
}

type flatPromptResult struct {
	Meta        json.RawMessage `json:"_meta,omitzero"`
	Description *string         `json:"description,omitzero"`
	Messages    []struct {
		Role    string    `json:"role"`
		Content flatBlock `json:"content"`
	} `json:"messages"`
}

// decodeFlatSamplingParams must read content twice, because it may be one block or a list.
func decodeFlatSamplingParams(e engine, raw []byte) (any, error) {
	return decodeSamplingParams(e, raw, func(raw []byte) (any, error) {
		if bytes.HasPrefix(raw, []byte{'['}) {
			return into[[]flatBlock](e, raw)
		}
		return into[flatBlock](e, raw)
	})
}

// flatField is any field of a form.
type flatField struct {
	Type        string          `json:"type"`
	Title       *string         `json:"title,omitzero"`
	Description *string         `json:"description,omitzero"`
	Format      *string         `json:"format,omitzero"`
	MinLength   *int64          `json:"minLength,omitzero"`
	MaxLength   *int64          `json:"maxLength,omitzero"`
	Minimum     *float64        `json:"minimum,omitzero"`
	Maximum     *float64        `json:"maximum,omitzero"`
	MinItems    *int64          `json:"minItems,omitzero"`
	MaxItems    *int64          `json:"maxItems,omitzero"`
	Enum        []string        `json:"enum,omitzero"`
	EnumNames   []string        `json:"enumNames,omitzero"`
	OneOf       []plainOption   `json:"oneOf,omitzero"`
	Items       *plainItems     `json:"items,omitzero"`
	Default     json.RawMessage `json:"default,omitzero"`
}

type flatElicitParams struct {
	Meta            json.RawMessage `json:"_meta,omitzero"`
	Mode            *string         `json:"mode,omitzero"`
	Message         string          `json:"message"`
	RequestedSchema struct {
		Type       string               `json:"type"`
		Properties map[string]flatField `json:"properties"`
		Required   []string             `json:"required,omitzero"`
	} `json:"requestedSchema"`
	Task *plainTaskMetadata `json:"task,omitzero"`
}

// decodeFlat returns the equivalent of decodePlain for payloads with unions, and nil for all
// others.
func decodeFlat(m messages.Message) func(e engine, raw []byte) (any, error) {
	switch {
	case m.AsTask:
		return nil
	case m.Form == messages.Response:
		return map[string]func(engine, []byte) (any, error){
			"prompts/get": into[flatPromptResult],
			"tools/call":  into[flatCallResult],
		}[m.Method]
	}
	return map[string]func(engine, []byte) (any, error){
		"elicitation/create":     into[flatElicitParams],
		"sampling/createMessage": decodeFlatSamplingParams,
	}[m.Method]
}

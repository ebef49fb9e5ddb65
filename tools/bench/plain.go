package main

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// The types into which the engines decode: those that a careful user of a general engine would
// write for the same messages. An optional member is a pointer or a slice, a member that the schema
// leaves open is raw, and a union is an interface over structs, as in package mcp. Engines cannot
// decode into such an interface. So the lists and objects that contain unions have a second struct,
// with the raw union, and a function that reads the discriminators.

type plainMessage struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitzero"`
	Method  string          `json:"method,omitzero"`
	Params  json.RawMessage `json:"params,omitzero"`
	Result  json.RawMessage `json:"result,omitzero"`
	Error   json.RawMessage `json:"error,omitzero"`
}

// plainTyped is a plainMessage for encoding. It contains the payload, so that encoding takes one
// pass.
type plainTyped struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitzero"`
	Method  string          `json:"method,omitzero"`
	Params  any             `json:"params,omitzero"`
	Result  any             `json:"result,omitzero"`
}

type plainTaskMetadata struct {
	TTL *int64 `json:"ttl,omitzero"`
}

type plainCallParams struct {
	Meta      json.RawMessage    `json:"_meta,omitzero"`
	Name      string             `json:"name"`
	Arguments json.RawMessage    `json:"arguments,omitzero"`
	Task      *plainTaskMetadata `json:"task,omitzero"`
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

type plainCreateTaskResult struct {
	Meta json.RawMessage `json:"_meta,omitzero"`
	Task plainTask       `json:"task"`
}

type plainListTasksResult struct {
	Meta       json.RawMessage `json:"_meta,omitzero"`
	Tasks      []plainTask     `json:"tasks"`
	NextCursor *string         `json:"nextCursor,omitzero"`
}

// plainBlock is a content block: a pointer to one of the structs below.
type plainBlock interface{ isPlainBlock() }

type plainAnnotations struct {
	Audience     []string `json:"audience,omitzero"`
	Priority     *float64 `json:"priority,omitzero"`
	LastModified *string  `json:"lastModified,omitzero"`
}

type plainText struct {
	Type        string            `json:"type"`
	Text        string            `json:"text"`
	Annotations *plainAnnotations `json:"annotations,omitzero"`
	Meta        json.RawMessage   `json:"_meta,omitzero"`
}

// plainMedia is an image or audio.
type plainMedia struct {
	Type        string            `json:"type"`
	Data        string            `json:"data"`
	MIMEType    string            `json:"mimeType"`
	Annotations *plainAnnotations `json:"annotations,omitzero"`
	Meta        json.RawMessage   `json:"_meta,omitzero"`
}

type plainResourceContents struct {
	URI      string          `json:"uri"`
	MIMEType *string         `json:"mimeType,omitzero"`
	Text     *string         `json:"text,omitzero"`
	Blob     *string         `json:"blob,omitzero"`
	Meta     json.RawMessage `json:"_meta,omitzero"`
}

type plainEmbedded struct {
	Type        string                `json:"type"`
	Resource    plainResourceContents `json:"resource"`
	Annotations *plainAnnotations     `json:"annotations,omitzero"`
	Meta        json.RawMessage       `json:"_meta,omitzero"`
}

type plainIcon struct {
	Src      string   `json:"src"`
	MIMEType *string  `json:"mimeType,omitzero"`
	Sizes    []string `json:"sizes,omitzero"`
	Theme    *string  `json:"theme,omitzero"`
}

type plainResource struct {
	URI         string            `json:"uri"`
	Name        string            `json:"name"`
	Title       *string           `json:"title,omitzero"`
	Description *string           `json:"description,omitzero"`
	MIMEType    *string           `json:"mimeType,omitzero"`
	Size        *int64            `json:"size,omitzero"`
	Annotations *plainAnnotations `json:"annotations,omitzero"`
	Icons       []plainIcon       `json:"icons,omitzero"`
	Meta        json.RawMessage   `json:"_meta,omitzero"`
}

type plainLink struct {
	Type string `json:"type"`
	plainResource
}

type plainToolUse struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Meta  json.RawMessage `json:"_meta,omitzero"`
}

type plainToolOutcome struct {
	Type              string          `json:"type"`
	ToolUseID         string          `json:"toolUseId"`
	Content           []plainBlock    `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	IsError           *bool           `json:"isError,omitzero"`
	Meta              json.RawMessage `json:"_meta,omitzero"`
}

func (*plainText) isPlainBlock()        {}
func (*plainMedia) isPlainBlock()       {}
func (*plainEmbedded) isPlainBlock()    {}
func (*plainLink) isPlainBlock()        {}
func (*plainToolUse) isPlainBlock()     {}
func (*plainToolOutcome) isPlainBlock() {}

func decodePlainBlock(e engine, raw []byte) (plainBlock, error) {
	var kind struct {
		Type string `json:"type"`
	}
	if err := e.unmarshal(raw, &kind); err != nil {
		return nil, err
	}
	switch kind.Type {
	case "text":
		v := new(plainText)
		return v, e.unmarshal(raw, v)
	case "image", "audio":
		v := new(plainMedia)
		return v, e.unmarshal(raw, v)
	case "resource":
		v := new(plainEmbedded)
		return v, e.unmarshal(raw, v)
	case "resource_link":
		v := new(plainLink)
		return v, e.unmarshal(raw, v)
	case "tool_use":
		v := new(plainToolUse)
		return v, e.unmarshal(raw, v)
	case "tool_result":
		var wire struct {
			ToolUseID         string            `json:"toolUseId"`
			Content           []json.RawMessage `json:"content"`
			StructuredContent json.RawMessage   `json:"structuredContent"`
			IsError           *bool             `json:"isError"`
			Meta              json.RawMessage   `json:"_meta"`
		}
		if err := e.unmarshal(raw, &wire); err != nil {
			return nil, err
		}
		content, err := decodePlainBlocks(e, wire.Content)
		return &plainToolOutcome{"tool_result", wire.ToolUseID, content, wire.StructuredContent, wire.IsError, wire.Meta}, err
	}
	return nil, errors.New("unknown type of content: " + kind.Type)
}

func decodePlainBlocks(e engine, raw []json.RawMessage) ([]plainBlock, error) {
	blocks := make([]plainBlock, len(raw))
	for i := range raw {
		var err error
		if blocks[i], err = decodePlainBlock(e, raw[i]); err != nil {
			return nil, err
		}
	}
	return blocks, nil
}

type plainCallResult struct {
	Meta              json.RawMessage `json:"_meta,omitzero"`
	Content           []plainBlock    `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitzero"`
	IsError           *bool           `json:"isError,omitzero"`
}

func decodePlainCallResult(e engine, raw []byte) (any, error) {
	var wire struct {
		Meta              json.RawMessage   `json:"_meta"`
		Content           []json.RawMessage `json:"content"`
		StructuredContent json.RawMessage   `json:"structuredContent"`
		IsError           *bool             `json:"isError"`
	}
	if err := e.unmarshal(raw, &wire); err != nil {
		return nil, err
	}
	content, err := decodePlainBlocks(e, wire.Content)
	return &plainCallResult{wire.Meta, content, wire.StructuredContent, wire.IsError}, err
}

type plainPromptMessage struct {
	Role    string     `json:"role"`
	Content plainBlock `json:"content"`
}

type plainPromptResult struct {
	Meta        json.RawMessage      `json:"_meta,omitzero"`
	Description *string              `json:"description,omitzero"`
	Messages    []plainPromptMessage `json:"messages"`
}

func decodePlainPromptResult(e engine, raw []byte) (any, error) {
	var wire struct {
		Meta        json.RawMessage `json:"_meta"`
		Description *string         `json:"description"`
		Messages    []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := e.unmarshal(raw, &wire); err != nil {
		return nil, err
	}
	messages := make([]plainPromptMessage, len(wire.Messages))
	for i, m := range wire.Messages {
		content, err := decodePlainBlock(e, m.Content)
		if err != nil {
			return nil, err
		}
		messages[i] = plainPromptMessage{m.Role, content}
	}
	return &plainPromptResult{wire.Meta, wire.Description, messages}, nil
}

// plainSamplingMessage has either one block of content or a list.
type plainSamplingMessage struct {
	Role    string          `json:"role"`
	Content any             `json:"content"` // a block or a list of blocks
	Meta    json.RawMessage `json:"_meta,omitzero"`
}

type plainModelHint struct {
	Name *string `json:"name,omitzero"`
}

type plainModelPreferences struct {
	Hints                []plainModelHint `json:"hints,omitzero"`
	CostPriority         *float64         `json:"costPriority,omitzero"`
	SpeedPriority        *float64         `json:"speedPriority,omitzero"`
	IntelligencePriority *float64         `json:"intelligencePriority,omitzero"`
}

type plainToolChoice struct {
	Mode *string `json:"mode,omitzero"`
}

// plainSamplingOptions is a sampling request without its messages.
type plainSamplingOptions struct {
	Meta             json.RawMessage        `json:"_meta,omitzero"`
	ModelPreferences *plainModelPreferences `json:"modelPreferences,omitzero"`
	SystemPrompt     *string                `json:"systemPrompt,omitzero"`
	IncludeContext   *string                `json:"includeContext,omitzero"`
	Temperature      *float64               `json:"temperature,omitzero"`
	MaxTokens        int64                  `json:"maxTokens"`
	StopSequences    []string               `json:"stopSequences,omitzero"`
	Metadata         json.RawMessage        `json:"metadata,omitzero"`
	Task             *plainTaskMetadata     `json:"task,omitzero"`
	Tools            []plainTool            `json:"tools,omitzero"`
	ToolChoice       *plainToolChoice       `json:"toolChoice,omitzero"`
}

type plainSamplingParams struct {
	Messages []plainSamplingMessage `json:"messages"`
	plainSamplingOptions
}

func decodePlainSamplingParams(e engine, raw []byte) (any, error) {
	return decodeSamplingParams(e, raw, func(raw []byte) (any, error) {
		if !bytes.HasPrefix(raw, []byte{'['}) { // engines remove leading white space
			return decodePlainBlock(e, raw)
		}
		var blocks []json.RawMessage
		if err := e.unmarshal(raw, &blocks); err != nil {
			return nil, err
		}
		return decodePlainBlocks(e, blocks)
	})
}

// decodeSamplingParams decodes the contents of messages with a function, which returns a block or a
// list of blocks.
func decodeSamplingParams(e engine, raw []byte, content func(raw []byte) (any, error)) (any, error) {
	var wire struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
			Meta    json.RawMessage `json:"_meta"`
		} `json:"messages"`
		plainSamplingOptions
	}
	if err := e.unmarshal(raw, &wire); err != nil {
		return nil, err
	}
	messages := make([]plainSamplingMessage, len(wire.Messages))
	for i, m := range wire.Messages {
		v, err := content(m.Content)
		if err != nil {
			return nil, err
		}
		messages[i] = plainSamplingMessage{m.Role, v, m.Meta}
	}
	return &plainSamplingParams{messages, wire.plainSamplingOptions}, nil
}

type plainToolSchema struct {
	Schema               *string         `json:"$schema,omitzero"`
	Type                 *string         `json:"type,omitzero"`
	Properties           json.RawMessage `json:"properties,omitzero"`
	Required             []string        `json:"required,omitzero"`
	AdditionalProperties json.RawMessage `json:"additionalProperties,omitzero"`
}

type plainToolAnnotations struct {
	Title           *string `json:"title,omitzero"`
	ReadOnlyHint    *bool   `json:"readOnlyHint,omitzero"`
	DestructiveHint *bool   `json:"destructiveHint,omitzero"`
	IdempotentHint  *bool   `json:"idempotentHint,omitzero"`
	OpenWorldHint   *bool   `json:"openWorldHint,omitzero"`
}

type plainToolExecution struct {
	TaskSupport *string `json:"taskSupport,omitzero"`
}

type plainTool struct {
	Name         string                `json:"name"`
	Title        *string               `json:"title,omitzero"`
	Description  *string               `json:"description,omitzero"`
	InputSchema  plainToolSchema       `json:"inputSchema"`
	OutputSchema *plainToolSchema      `json:"outputSchema,omitzero"`
	Annotations  *plainToolAnnotations `json:"annotations,omitzero"`
	Icons        []plainIcon           `json:"icons,omitzero"`
	Execution    *plainToolExecution   `json:"execution,omitzero"`
	Meta         json.RawMessage       `json:"_meta,omitzero"`
}

type plainListToolsResult struct {
	Meta       json.RawMessage `json:"_meta,omitzero"`
	Tools      []plainTool     `json:"tools"`
	NextCursor *string         `json:"nextCursor,omitzero"`
}

type plainListResourcesResult struct {
	Meta       json.RawMessage `json:"_meta,omitzero"`
	Resources  []plainResource `json:"resources"`
	NextCursor *string         `json:"nextCursor,omitzero"`
}

type plainImplementation struct {
	Name        string      `json:"name"`
	Title       *string     `json:"title,omitzero"`
	Version     string      `json:"version"`
	Description *string     `json:"description,omitzero"`
	WebsiteURL  *string     `json:"websiteUrl,omitzero"`
	Icons       []plainIcon `json:"icons,omitzero"`
}

type plainListChanged struct {
	ListChanged *bool `json:"listChanged,omitzero"`
}

type plainClientCapabilities struct {
	Experimental json.RawMessage   `json:"experimental,omitzero"`
	Roots        *plainListChanged `json:"roots,omitzero"`
	Sampling     *struct {
		Context json.RawMessage `json:"context,omitzero"`
		Tools   json.RawMessage `json:"tools,omitzero"`
	} `json:"sampling,omitzero"`
	Elicitation *struct {
		Form json.RawMessage `json:"form,omitzero"`
		URL  json.RawMessage `json:"url,omitzero"`
	} `json:"elicitation,omitzero"`
	Tasks *struct {
		List     json.RawMessage `json:"list,omitzero"`
		Cancel   json.RawMessage `json:"cancel,omitzero"`
		Requests *struct {
			Sampling *struct {
				CreateMessage json.RawMessage `json:"createMessage,omitzero"`
			} `json:"sampling,omitzero"`
			Elicitation *struct {
				Create json.RawMessage `json:"create,omitzero"`
			} `json:"elicitation,omitzero"`
		} `json:"requests,omitzero"`
	} `json:"tasks,omitzero"`
}

type plainInitializeParams struct {
	Meta            json.RawMessage         `json:"_meta,omitzero"`
	ProtocolVersion string                  `json:"protocolVersion"`
	Capabilities    plainClientCapabilities `json:"capabilities"`
	ClientInfo      plainImplementation     `json:"clientInfo"`
}

type plainServerCapabilities struct {
	Experimental json.RawMessage   `json:"experimental,omitzero"`
	Logging      json.RawMessage   `json:"logging,omitzero"`
	Completions  json.RawMessage   `json:"completions,omitzero"`
	Prompts      *plainListChanged `json:"prompts,omitzero"`
	Resources    *struct {
		Subscribe   *bool `json:"subscribe,omitzero"`
		ListChanged *bool `json:"listChanged,omitzero"`
	} `json:"resources,omitzero"`
	Tools *plainListChanged `json:"tools,omitzero"`
	Tasks *struct {
		List     json.RawMessage `json:"list,omitzero"`
		Cancel   json.RawMessage `json:"cancel,omitzero"`
		Requests *struct {
			Tools *struct {
				Call json.RawMessage `json:"call,omitzero"`
			} `json:"tools,omitzero"`
		} `json:"requests,omitzero"`
	} `json:"tasks,omitzero"`
}

type plainInitializeResult struct {
	Meta            json.RawMessage         `json:"_meta,omitzero"`
	ProtocolVersion string                  `json:"protocolVersion"`
	Capabilities    plainServerCapabilities `json:"capabilities"`
	ServerInfo      plainImplementation     `json:"serverInfo"`
	Instructions    *string                 `json:"instructions,omitzero"`
}

type plainProgressParams struct {
	Meta          json.RawMessage `json:"_meta,omitzero"`
	ProgressToken json.RawMessage `json:"progressToken"`
	Progress      float64         `json:"progress"`
	Total         *float64        `json:"total,omitzero"`
	Message       *string         `json:"message,omitzero"`
}

// plainField is a field of a form: a pointer to one of the structs below.
type plainField interface{ isPlainField() }

type plainStringField struct {
	Type        string  `json:"type"`
	Title       *string `json:"title,omitzero"`
	Description *string `json:"description,omitzero"`
	Format      *string `json:"format,omitzero"`
	MinLength   *int64  `json:"minLength,omitzero"`
	MaxLength   *int64  `json:"maxLength,omitzero"`
	Default     *string `json:"default,omitzero"`
}

type plainNumberField struct {
	Type        string   `json:"type"`
	Title       *string  `json:"title,omitzero"`
	Description *string  `json:"description,omitzero"`
	Minimum     *float64 `json:"minimum,omitzero"`
	Maximum     *float64 `json:"maximum,omitzero"`
	Default     *float64 `json:"default,omitzero"`
}

type plainBooleanField struct {
	Type        string  `json:"type"`
	Title       *string `json:"title,omitzero"`
	Description *string `json:"description,omitzero"`
	Default     *bool   `json:"default,omitzero"`
}

type plainOption struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// plainChoiceField is a single choice of any kind.
type plainChoiceField struct {
	Type        string        `json:"type"`
	Title       *string       `json:"title,omitzero"`
	Description *string       `json:"description,omitzero"`
	Enum        []string      `json:"enum,omitzero"`
	EnumNames   []string      `json:"enumNames,omitzero"`
	OneOf       []plainOption `json:"oneOf,omitzero"`
	Default     *string       `json:"default,omitzero"`
}

// plainChoicesField is a multiple choice of any kind.
type plainChoicesField struct {
	Type        string     `json:"type"`
	Title       *string    `json:"title,omitzero"`
	Description *string    `json:"description,omitzero"`
	MinItems    *int64     `json:"minItems,omitzero"`
	MaxItems    *int64     `json:"maxItems,omitzero"`
	Items       plainItems `json:"items"`
	Default     []string   `json:"default,omitzero"`
}

type plainItems struct {
	Type  *string       `json:"type,omitzero"`
	Enum  []string      `json:"enum,omitzero"`
	AnyOf []plainOption `json:"anyOf,omitzero"`
}

func (*plainStringField) isPlainField()  {}
func (*plainNumberField) isPlainField()  {}
func (*plainBooleanField) isPlainField() {}
func (*plainChoiceField) isPlainField()  {}
func (*plainChoicesField) isPlainField() {}

func decodePlainField(e engine, raw []byte) (plainField, error) {
	var kind struct {
		Type  string          `json:"type"`
		Enum  json.RawMessage `json:"enum"`
		OneOf json.RawMessage `json:"oneOf"`
	}
	if err := e.unmarshal(raw, &kind); err != nil {
		return nil, err
	}
	switch {
	case kind.Enum != nil || kind.OneOf != nil:
		v := new(plainChoiceField)
		return v, e.unmarshal(raw, v)
	case kind.Type == "string":
		v := new(plainStringField)
		return v, e.unmarshal(raw, v)
	case kind.Type == "number" || kind.Type == "integer":
		v := new(plainNumberField)
		return v, e.unmarshal(raw, v)
	case kind.Type == "boolean":
		v := new(plainBooleanField)
		return v, e.unmarshal(raw, v)
	case kind.Type == "array":
		v := new(plainChoicesField)
		return v, e.unmarshal(raw, v)
	}
	return nil, errors.New("unknown type of field: " + kind.Type)
}

type plainForm struct {
	Type       string                `json:"type"`
	Properties map[string]plainField `json:"properties"`
	Required   []string              `json:"required,omitzero"`
}

type plainElicitParams struct {
	Meta            json.RawMessage    `json:"_meta,omitzero"`
	Mode            *string            `json:"mode,omitzero"`
	Message         string             `json:"message"`
	RequestedSchema plainForm          `json:"requestedSchema"`
	Task            *plainTaskMetadata `json:"task,omitzero"`
}

func decodePlainElicitParams(e engine, raw []byte) (any, error) {
	var wire struct {
		Meta            json.RawMessage `json:"_meta"`
		Mode            *string         `json:"mode"`
		Message         string          `json:"message"`
		RequestedSchema struct {
			Type       string                     `json:"type"`
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
		} `json:"requestedSchema"`
		Task *plainTaskMetadata `json:"task"`
	}
	if err := e.unmarshal(raw, &wire); err != nil {
		return nil, err
	}
	form := plainForm{wire.RequestedSchema.Type, make(map[string]plainField, len(wire.RequestedSchema.Properties)), wire.RequestedSchema.Required}
	for name, raw := range wire.RequestedSchema.Properties {
		field, err := decodePlainField(e, raw)
		if err != nil {
			return nil, err
		}
		form.Properties[name] = field
	}
	return &plainElicitParams{wire.Meta, wire.Mode, wire.Message, form, wire.Task}, nil
}

// decodePlain returns the function by which an engine decodes the payload of a message: the params,
// the result or, without an envelope, the message itself.
func decodePlain(m messages.Message, flat bool) func(e engine, raw []byte) (any, error) {
	if flat {
		if decode := decodeFlat(m); decode != nil {
			return decode
		}
	}
	switch {
	case m.Form == messages.BareTask:
		return into[plainTask]
	case m.AsTask: // the caller knows that it requested a task
		return into[plainCreateTaskResult]
	case m.Form == messages.Response:
		return map[string]func(engine, []byte) (any, error){
			"initialize":     into[plainInitializeResult],
			"prompts/get":    decodePlainPromptResult,
			"resources/list": into[plainListResourcesResult],
			"tasks/list":     into[plainListTasksResult],
			"tools/call":     decodePlainCallResult,
			"tools/list":     into[plainListToolsResult],
		}[m.Method]
	}
	return map[string]func(engine, []byte) (any, error){
		"elicitation/create":     decodePlainElicitParams,
		"initialize":             into[plainInitializeParams],
		"notifications/progress": into[plainProgressParams],
		"sampling/createMessage": decodePlainSamplingParams,
		"tools/call":             into[plainCallParams],
	}[m.Method]
}

// into decodes a value without unions.
func into[T any](e engine, raw []byte) (any, error) {
	v := new(T)
	return v, e.unmarshal(raw, v)
}

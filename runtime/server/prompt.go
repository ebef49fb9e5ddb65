package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
)

// PromptFunc fills in a prompt. All required arguments are present; arguments that the prompt does
// not declare may be present, too. The messages of the result are of the user or the assistant, and
// embedded resources in them must have a media type.
type PromptFunc func(ctx context.Context, c *Call, arguments map[string]string) (*mcp.GetPromptResult, error)

// PromptOption is an option of [Server.AddPrompt]: a [Completion].
type PromptOption interface{ forPrompt(*prompt) }

// prompt is a prompt of a server. It is immutable.
type prompt struct {
	def        mcp.Prompt
	get        PromptFunc
	completers map[string]CompleteFunc
}

// AddPrompt adds a prompt. The options are completions of its arguments, see [Complete]. It fails
// if the protocol does not admit the description, and with [ErrExists] if there is a prompt of that
// name.
func (s *Server) AddPrompt(def mcp.Prompt, get PromptFunc, options ...PromptOption) (*Handle[mcp.Prompt], error) {
	if get == nil {
		return nil, fmt.Errorf("server: prompt %q: nil function", def.Name)
	}
	build := func(def mcp.Prompt) (*prompt, error) { return newPrompt(def, get, options) }
	return addTo(s.prompts, def, func(d *mcp.Prompt) string { return d.Name }, build, func(p *prompt) mcp.Prompt { return p.def })
}

func newPrompt(def mcp.Prompt, get PromptFunc, options []PromptOption) (*prompt, error) {
	if def.Name == "" {
		return nil, errors.New("server: prompt without a name")
	}
	if err := def.Validate(latest()); err != nil {
		return nil, fmt.Errorf("server: prompt %q: %w", def.Name, err)
	}
	p := &prompt{def: def, get: get, completers: map[string]CompleteFunc{}}
	seen := map[string]bool{}
	for _, a := range def.Arguments {
		if a.Name == "" {
			return nil, fmt.Errorf("server: prompt %q: argument without a name", def.Name)
		}
		if seen[a.Name] {
			return nil, fmt.Errorf("server: prompt %q: duplicate argument %q", def.Name, a.Name)
		}
		seen[a.Name] = true
	}
	for _, o := range options {
		if o == nil {
			return nil, fmt.Errorf("server: prompt %q: nil option", def.Name)
		}
		o.forPrompt(p)
	}
	for name := range p.completers {
		if !seen[name] {
			return nil, fmt.Errorf("server: prompt %q: completion of unknown argument %q", def.Name, name)
		}
	}
	return p, nil
}

// ListPrompts implements prompts/list (MCP prompts, "Listing Prompts").
func (h *handler) ListPrompts(ctx context.Context, params *mcp.PaginatedRequestParams) (*mcp.ListPromptsResult, error) {
	entries, next, err := page(h.p.s.prompts, mcp.MethodPromptsList, params)
	if err != nil {
		return nil, err
	}
	result := &mcp.ListPromptsResult{Prompts: make([]mcp.Prompt, len(entries)), NextCursor: next}
	for i, e := range entries {
		result.Prompts[i] = e.value.def
	}
	return result, nil
}

// GetPrompt implements prompts/get (MCP prompts, "Getting a Prompt" and "Error Handling").
func (h *handler) GetPrompt(ctx context.Context, params *mcp.GetPromptRequestParams) (mcp.GetPromptOutcome, error) {
	p, ok := h.p.s.prompts.get(params.Name)
	if !ok {
		return nil, invalidParams("unknown prompt: %q", params.Name)
	}
	for _, a := range p.def.Arguments {
		if _, given := params.Arguments[a.Name]; !given && a.Required != nil && *a.Required {
			return nil, invalidParams("prompt %q needs the argument %q", params.Name, a.Name)
		}
	}
	arguments := params.Arguments
	if arguments == nil {
		arguments = map[string]string{}
	}
	result, err := p.get(ctx, newCall(ctx, h.p), arguments)
	if err == nil && result == nil {
		err = fmt.Errorf("prompt %q returned no result", params.Name)
	}
	if err != nil {
		return nil, err // an untyped nil: the outcome is an interface
	}
	if fault := checkPrompt(result.Messages); fault != nil {
		err := internalError("the result of the prompt is invalid: %s", firstFault(fault.Error()))
		h.p.s.cfg.Logger.Error("prompt result rejected", "prompt", params.Name, "error", err)
		return nil, err
	}
	return result, nil
}

// UserText returns a message of the user with a text.
func UserText(text string) mcp.PromptMessage {
	return mcp.PromptMessage{Role: mcp.RoleUser, Content: &mcp.TextContent{Text: text}}
}

// Messages returns a prompt result with the messages of list.
func Messages(list ...mcp.PromptMessage) *mcp.GetPromptResult {
	return &mcp.GetPromptResult{Messages: list}
}

package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/mcpwire/mcpwire/mcp"
)

// PromptFunc fills in a prompt. Its messages are of the user or the assistant, and embedded
// resources in them have a media type. All required arguments are present. Arguments that the
// prompt does not declare are passed on as well, if the client sends them.
type PromptFunc func(ctx context.Context, c *Call, arguments map[string]string) (*mcp.GetPromptResult, error)

// PromptOption says more about a prompt than the protocol does.
type PromptOption interface{ forPrompt(*prompt) }

// prompt is a prompt of a server. It does not change.
type prompt struct {
	def       mcp.Prompt
	get       PromptFunc
	completes map[string]CompleteFunc
}

// AddPrompt adds a prompt. Options are completions by [Complete] for its arguments. It fails if the description is not
// what the protocol admits, or with [ErrExists].
func (s *Server) AddPrompt(def mcp.Prompt, get PromptFunc, options ...PromptOption) (*Handle[mcp.Prompt], error) {
	if get == nil {
		return nil, errors.New("server: no function for the prompt " + def.Name)
	}
	build := func(def mcp.Prompt) (*prompt, error) { return newPrompt(def, get, options) }
	return addTo(s.prompts, def, func(d *mcp.Prompt) string { return d.Name }, build, func(p *prompt) mcp.Prompt { return p.def })
}

func newPrompt(def mcp.Prompt, get PromptFunc, options []PromptOption) (*prompt, error) {
	if def.Name == "" {
		return nil, errors.New("server: a prompt has no name")
	}
	if err := def.Validate(latest()); err != nil {
		return nil, fmt.Errorf("server: the prompt %q: %w", def.Name, err)
	}
	p := &prompt{def: def, get: get, completes: map[string]CompleteFunc{}}
	seen := map[string]bool{}
	for _, a := range def.Arguments {
		if a.Name == "" || seen[a.Name] {
			return nil, fmt.Errorf("server: the prompt %q has an argument without a name, or two named %q", def.Name, a.Name)
		}
		seen[a.Name] = true
	}
	for _, o := range options {
		if o == nil {
			return nil, fmt.Errorf("server: nil option of the prompt %q", def.Name)
		}
		o.forPrompt(p)
	}
	for name := range p.completes {
		if !seen[name] {
			return nil, fmt.Errorf("server: the prompt %q has no argument %q to complete", def.Name, name)
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
			return nil, invalidParams("the prompt %q needs the argument %q", params.Name, a.Name)
		}
	}
	arguments := params.Arguments
	if arguments == nil {
		arguments = map[string]string{}
	}
	result, err := p.get(ctx, newCall(ctx, h.p), arguments)
	if err == nil && result == nil {
		err = fmt.Errorf("the prompt %q returned no result", params.Name)
	}
	if err != nil {
		return nil, err // with no result that is a typed nil
	}
	if fault := checkPrompt(result.Messages); fault != nil {
		err := internalError("the result of the prompt is invalid: %s", oneLine(fault.Error()))
		h.p.s.cfg.Logger.Error("result of a prompt refused", "prompt", params.Name, "error", err)
		return nil, err
	}
	return result, nil
}

// UserText is a message of the user with a text.
func UserText(text string) mcp.PromptMessage {
	return mcp.PromptMessage{Role: mcp.RoleUser, Content: &mcp.TextContent{Text: text}}
}

// Messages is what a prompt becomes.
func Messages(list ...mcp.PromptMessage) *mcp.GetPromptResult {
	return &mcp.GetPromptResult{Messages: list}
}

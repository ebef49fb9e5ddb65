package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/server/internal/results"
	"github.com/mcpwire/mcpwire/runtime/server/internal/schemas"
)

// PromptOption is an option of [AddPrompt]: [DefinePrompt], [RequireScopes], [VisibleTo],
// [WrapPrompt] or a completion of an argument, see [Complete].
type PromptOption interface{ forPrompt(*prompt) }

type promptOption func(*prompt)

func (f promptOption) forPrompt(p *prompt) { f(p) }

// DefinePrompt sets members of the prompt's description that [AddPrompt] has no argument for, such
// as the title, icons and _meta, and the arguments of a prompt that takes a map. F receives the
// description with the name, the description and the arguments of the call. It must not change the
// name.
func DefinePrompt(f func(*mcp.Prompt)) PromptOption {
	if f == nil {
		return nil
	}
	return promptOption(func(p *prompt) { f(&p.def) })
}

// prompt is a prompt of a server. It is immutable.
type prompt struct {
	common
	def        mcp.Prompt
	in         schemas.Arguments
	get        func(ctx context.Context, c *Call, arguments map[string]string) (*mcp.GetPromptResult, error)
	completers map[string]CompleteFunc
	// wrapped calls the middleware, then serve. It is nil if there is no middleware.
	wrapped    PromptHandler
	middleware []func(next PromptHandler) PromptHandler // of the option WrapPrompt
}

// AddPrompt adds a prompt that f fills in. The options are [DefinePrompt] and completions of
// arguments, see [Complete]. All required arguments are present when f is called. Embedded resources
// in its messages must have a media type.
//
// In is a struct or map[string]string. Each field of a struct is an argument: a string, a boolean,
// a number, a type that implements [encoding.TextUnmarshaler], or a pointer to one of these. The
// json tag names the argument as in encoding/json, and the tag jsonschema describes it. An argument
// is required unless its json tag says omitempty or omitzero. A request with an argument that its
// field does not accept is rejected. The tags of [SchemaFor] apply, too: an argument with a default
// is optional, the values of an enum are its completion unless the prompt has another, and limits
// are validated. The arguments of a map are declared with DefinePrompt. A struct ignores arguments
// that the prompt does not declare; a map receives them.
//
// Out is string, which becomes one message of the user, [][mcp.PromptMessage] or
// [*mcp.GetPromptResult].
//
// It is a fault if the protocol does not admit the description, or if there is a prompt of that name
// ([ErrExists]): the prompt is not added, and the server does not start; see [Handle.Err].
func AddPrompt[In, Out any](s *Server, name, description string, f func(ctx context.Context, c *Call, in In) (Out, error), options ...PromptOption) *Handle[mcp.Prompt] {
	h, err := addPrompt(s, mcp.Prompt{Name: name, Description: optional(description)}, f, options)
	return added(s, h, err)
}

func addPrompt[In, Out any](s *Server, def mcp.Prompt, f func(ctx context.Context, c *Call, in In) (Out, error), options []PromptOption) (*Handle[mcp.Prompt], error) {
	if s == nil {
		return nil, errNoServer
	}
	if f == nil {
		return nil, fmt.Errorf("server: prompt %q: nil function", def.Name)
	}
	toResult, err := promptConverter[Out]()
	if err != nil {
		return nil, fmt.Errorf("server: prompt %q: output: %w", def.Name, err)
	}
	declared := prompt{def: def, completers: map[string]CompleteFunc{}}
	if declared.in, err = schemas.ArgumentsOf(reflect.TypeFor[In](), definitions(s.cfg.Features.Types)); err != nil {
		return nil, fmt.Errorf("server: prompt %q: arguments: %w", def.Name, err)
	}
	for _, a := range declared.in {
		described := mcp.PromptArgument{Name: a.Name(), Title: optional(a.Title()), Description: optional(a.Description())}
		if !a.Optional() {
			described.Required = new(true)
		}
		declared.def.Arguments = append(declared.def.Arguments, described)
	}
	declared.get = func(ctx context.Context, c *Call, arguments map[string]string) (*mcp.GetPromptResult, error) {
		var in In
		switch p := any(&in).(type) {
		case *map[string]string:
			*p = arguments
		default:
			if err := declared.in.Decode(ctx, reflect.ValueOf(p).Elem(), arguments); err != nil {
				return nil, invalidParams("%v", err)
			}
		}
		out, err := f(ctx, c, in)
		if err != nil {
			return nil, err
		}
		return toResult(out), nil
	}
	for _, o := range options {
		if o == nil {
			return nil, fmt.Errorf("server: prompt %q: nil option", def.Name)
		}
		o.forPrompt(&declared)
	}
	for _, a := range declared.in {
		choices := a.Choices()
		if _, ok := declared.completers[a.Name()]; !ok && choices != nil {
			declared.completers[a.Name()] = OneOf(choices...)
		}
	}
	if declared.def.Name != def.Name {
		return nil, fmt.Errorf("server: prompt %q: DefinePrompt changed the name to %q", def.Name, declared.def.Name)
	}
	build := func(def mcp.Prompt) (*prompt, error) {
		p, err := newPrompt(def, declared)
		if err != nil {
			return nil, err
		}
		p.wrapped, err = wrap(s.cfg.Middleware.Prompts, declared.middleware, func(ctx context.Context, c *Call, r *PromptRequest) (*mcp.GetPromptResult, error) {
			result, err := p.serve(ctx, c, r.Arguments)
			if err != nil {
				return nil, err
			}
			return result, p.checkResult(c, result)
		})
		if err != nil {
			return nil, fmt.Errorf("server: prompt %q: %w", def.Name, err)
		}
		return p, nil
	}
	return addTo(s.prompts, declared.def, func(d *mcp.Prompt) string { return d.Name }, build, func(p *prompt) mcp.Prompt { return p.def })
}

// promptConverter returns the function that converts output of type Out to a result.
func promptConverter[Out any]() (func(Out) *mcp.GetPromptResult, error) {
	var give any
	switch any(*new(Out)).(type) {
	case string:
		give = func(text string) *mcp.GetPromptResult {
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{UserText(text)}}
		}
	case []mcp.PromptMessage:
		give = func(list []mcp.PromptMessage) *mcp.GetPromptResult { return &mcp.GetPromptResult{Messages: list} }
	case *mcp.GetPromptResult:
		give = func(r *mcp.GetPromptResult) *mcp.GetPromptResult { return r }
	default:
		return nil, fmt.Errorf("want string, []mcp.PromptMessage or *mcp.GetPromptResult, got %v", reflect.TypeFor[Out]())
	}
	return give.(func(Out) *mcp.GetPromptResult), nil
}

// newPrompt completes declared, which has the function and the options, with the definition.
func newPrompt(def mcp.Prompt, declared prompt) (*prompt, error) {
	if def.Name == "" {
		return nil, errors.New("server: prompt without a name")
	}
	if err := def.Validate(latest()); err != nil {
		return nil, fmt.Errorf("server: prompt %q: %w", def.Name, err)
	}
	p := &declared
	p.def = def
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
	if err := p.in.Check(seen); err != nil {
		return nil, fmt.Errorf("server: prompt %q: %w", def.Name, err)
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
	entries, next, err := page(newCall(ctx, h.p), h.p.s.prompts, mcp.MethodPromptsList, params)
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
	c := newCall(ctx, h.p)
	c.rounds = true
	p, ok := h.p.s.prompts.get(c, params.Name)
	if !ok {
		return nil, invalidParams("unknown prompt: %q", params.Name)
	}
	arguments := params.Arguments
	if arguments == nil {
		arguments = map[string]string{}
	}
	if err := c.resume(params.Name, params.RequestState, params.InputResponses); err != nil {
		return nil, err
	}
	returned := false
	defer c.exit(&returned)
	result, err := p.run(ctx, c, arguments)
	returned = true
	required, fault := c.end(params.Name, err)
	switch {
	case required != nil:
		return required, nil
	case fault != nil:
		err = fault
	case err == nil:
		err = p.checkResult(c, result)
	}
	if _, fault := c.compensate(err != nil, result, err); fault != nil {
		err = fault
	}
	if err != nil {
		return nil, err // an untyped nil: the outcome is an interface
	}
	return result, nil
}

// run calls the middleware of the prompt, then serve.
func (p *prompt) run(ctx context.Context, c *Call, arguments map[string]string) (result *mcp.GetPromptResult, err error) {
	defer boundary.Catch(&err)
	if p.wrapped == nil {
		return p.serve(ctx, c, arguments)
	}
	return p.wrapped(ctx, c, &PromptRequest{&p.def, arguments})
}

// serve checks that required arguments are present, and calls the function of the prompt.
func (p *prompt) serve(ctx context.Context, c *Call, arguments map[string]string) (*mcp.GetPromptResult, error) {
	for _, a := range p.def.Arguments {
		if _, given := arguments[a.Name]; !given && a.Required != nil && *a.Required {
			return nil, invalidParams("prompt %q needs the argument %q", p.def.Name, a.Name)
		}
	}
	return p.get(ctx, c, arguments)
}

// checkResult returns an error if a result must not be sent. It logs invalid messages.
func (p *prompt) checkResult(c *Call, result *mcp.GetPromptResult) error {
	if result == nil {
		return fmt.Errorf("prompt %q returned no result", p.def.Name)
	}
	fault := cmp.Or(checkPrompt(result.Messages), results.CheckMeta(result.Meta))
	if fault == nil {
		return nil
	}
	err := internalError("the result of the prompt is invalid: %s", schemas.FirstFault(fault.Error()))
	c.p.s.cfg.Logger.Error("prompt result rejected", "prompt", p.def.Name, "error", err)
	return err
}

// UserText returns a message of the user with a text.
func UserText(text string) mcp.PromptMessage {
	return mcp.PromptMessage{Role: mcp.RoleUser, Content: &mcp.TextContent{Text: text}}
}

package server

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/mcp"
)

// CompleteFunc proposes values for an argument of a prompt or a variable of a template, the most
// relevant first. Value is the text typed so far, and others are the values of other arguments that
// are known already. The server sends the first 100 proposals and the total number.
type CompleteFunc func(ctx context.Context, c *Call, value string, others map[string]string) ([]string, error)

// maxValues limits the values in a result (MCP completion, "Completion Results").
const maxValues = 100

type completion struct {
	name string
	f    CompleteFunc
}

// Complete completes one argument of a prompt, or one variable of a template.
func Complete(name string, f CompleteFunc) interface {
	PromptOption
	TemplateOption
} {
	return completion{name, f}
}

func (c completion) forPrompt(p *prompt)     { p.completers[c.name] = c.f }
func (c completion) forTemplate(t *template) { t.completers[c.name] = c.f }

// OneOf returns a function that proposes the values that begin with the typed text, ignoring case.
func OneOf(values ...string) CompleteFunc {
	values = slices.Clone(values)
	return func(_ context.Context, _ *Call, value string, _ map[string]string) ([]string, error) {
		var fit []string
		typed := utf8.RuneCountInString(value)
		for _, v := range values {
			if strings.EqualFold(firstRunes(v, typed), value) {
				fit = append(fit, v)
			}
		}
		return fit, nil
	}
}

// firstRunes returns the first n characters of a text. It counts characters, because upper and
// lower case may differ in their number of bytes.
func firstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// hasCompletions reports whether an enabled prompt or template has a completion.
func (s *Server) hasCompletions() bool {
	for _, e := range *s.prompts.enabled.Load() {
		if len(e.value.completers) > 0 {
			return true
		}
	}
	for _, e := range *s.templates.enabled.Load() {
		if len(e.value.completers) > 0 {
			return true
		}
	}
	return false
}

// Complete implements completion/complete (MCP completion, "Requesting Completions").
func (h *handler) Complete(ctx context.Context, params *mcp.CompleteRequestParams) (*mcp.CompleteResult, error) {
	c := newCall(ctx, h.p)
	f, err := h.p.s.completion(c, params)
	if err != nil {
		return nil, err
	}
	result := &mcp.CompleteResult{Completion: mcp.CompleteResultCompletion{Values: []string{}}}
	if f == nil {
		return result, nil
	}
	others := map[string]string{}
	if params.Context != nil && params.Context.Arguments != nil {
		others = params.Context.Arguments
	}
	values, err := f(ctx, c, params.Argument.Value, others)
	if err != nil {
		return nil, err
	}
	out := &result.Completion
	out.Total, out.HasMore = new(int64(len(values))), new(len(values) > maxValues)
	out.Values = append(out.Values, values[:min(len(values), maxValues)]...)
	return result, nil
}

// completion returns the function that completes an argument, or nil if there is none.
func (s *Server) completion(c *Call, params *mcp.CompleteRequestParams) (CompleteFunc, error) {
	name := params.Argument.Name
	switch ref := params.Ref.(type) {
	case *mcp.PromptReference:
		p, ok := s.prompts.get(c, ref.Name)
		if !ok {
			return nil, invalidParams("unknown prompt: %q", ref.Name)
		}
		if !slices.ContainsFunc(p.def.Arguments, func(a mcp.PromptArgument) bool { return a.Name == name }) {
			return nil, invalidParams("prompt %q has no argument %q", ref.Name, name)
		}
		return p.completers[name], nil
	case *mcp.ResourceTemplateReference:
		t, ok := s.templates.get(c, ref.URI)
		if !ok {
			if _, static := s.resources.get(c, ref.URI); static {
				return nil, nil // a static resource has no variables
			}
			return nil, invalidParams("unknown resource template: %q", ref.URI)
		}
		if !slices.Contains(t.names, name) {
			return nil, invalidParams("resource template %q has no variable %q", ref.URI, name)
		}
		return t.completers[name], nil
	}
	return nil, invalidParams("unknown kind of reference")
}

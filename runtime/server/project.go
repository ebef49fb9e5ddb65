package server

import (
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// This file leaves out of what is sent what the revision of a session does not know. It copies what it changes:
// results may be an author's own.

// project returns a result as a revision has it.
func project(rev mcp.Revision, result codec.Encoder) codec.Encoder {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		return projectCall(rev, r)
	case *mcp.ListToolsResult:
		for i := range r.Tools { // the list is ours
			projectTool(rev, &r.Tools[i])
		}
	case *mcp.ListResourcesResult:
		for i := range r.Resources {
			projectResource(rev, &r.Resources[i])
		}
	case *mcp.ListResourceTemplatesResult:
		for i := range r.ResourceTemplates {
			projectTemplate(rev, &r.ResourceTemplates[i])
		}
	case *mcp.ListPromptsResult:
		for i := range r.Prompts {
			projectPrompt(rev, &r.Prompts[i])
		}
	case *mcp.GetPromptResult:
		return projectMessages(rev, r)
	case *mcp.ReadResourceResult:
		r.ResultType, r.TTLMs, r.CacheScope = nil, nil, nil
		for i, c := range r.Contents {
			r.Contents[i] = projectContents(rev, c)
		}
	}
	return result
}

func projectCall(rev mcp.Revision, r *mcp.CallToolResult) *mcp.CallToolResult {
	if rev >= mcp.Revision20251125 && r.ResultType == nil {
		return r
	}
	out := *r
	out.ResultType = nil
	if rev < mcp.Revision20250618 {
		out.StructuredContent = nil
	}
	out.Content = make([]mcp.ContentBlock, len(r.Content))
	for i, block := range r.Content {
		out.Content[i] = projectBlock(rev, block)
	}
	return &out
}

func projectMessages(rev mcp.Revision, r *mcp.GetPromptResult) *mcp.GetPromptResult {
	out := *r
	out.ResultType = nil
	out.Messages = make([]mcp.PromptMessage, len(r.Messages))
	for i, m := range r.Messages {
		out.Messages[i] = m
		out.Messages[i].Content = projectBlock(rev, m.Content)
	}
	return &out
}

// projectBlock returns a content block as a revision has it. What it cannot express becomes a text.
func projectBlock(rev mcp.Revision, block mcp.ContentBlock) mcp.ContentBlock {
	if rev >= mcp.Revision20251125 {
		return block
	}
	old := rev < mcp.Revision20250618
	switch b := block.(type) {
	case *mcp.TextContent:
		out := *b
		out.Annotations = projectAnnotations(rev, b.Annotations)
		forget(old, &out.Meta)
		return &out
	case *mcp.ImageContent:
		out := *b
		out.Annotations = projectAnnotations(rev, b.Annotations)
		forget(old, &out.Meta)
		return &out
	case *mcp.AudioContent:
		if rev < mcp.Revision20250326 {
			return &mcp.TextContent{Text: "[sound of type " + b.MIMEType + "]", Annotations: projectAnnotations(rev, b.Annotations)}
		}
		out := *b
		out.Annotations = projectAnnotations(rev, b.Annotations)
		forget(old, &out.Meta)
		return &out
	case *mcp.EmbeddedResource:
		out := *b
		out.Annotations = projectAnnotations(rev, b.Annotations)
		out.Resource = projectContents(rev, b.Resource)
		forget(old, &out.Meta)
		return &out
	case *mcp.ResourceLink:
		if old {
			return &mcp.TextContent{Text: linkText(b), Annotations: projectAnnotations(rev, b.Annotations)}
		}
		out := *b
		out.Icons = nil
		return &out
	}
	return block
}

// linkText says in words what a link to a resource says.
func linkText(b *mcp.ResourceLink) string {
	parts := []string{"[resource", b.Name}
	if b.Description != nil {
		parts = append(parts, "("+*b.Description+")")
	}
	return strings.Join(parts, " ") + ": " + b.URI + "]"
}

func projectContents(rev mcp.Revision, c mcp.AnyResourceContents) mcp.AnyResourceContents {
	if rev >= mcp.Revision20250618 {
		return c
	}
	switch c := c.(type) {
	case *mcp.TextResourceContents:
		out := *c
		out.Meta = nil
		return &out
	case *mcp.BlobResourceContents:
		out := *c
		out.Meta = nil
		return &out
	}
	return c
}

func projectAnnotations(rev mcp.Revision, a *mcp.Annotations) *mcp.Annotations {
	if a == nil || a.LastModified == nil || rev >= mcp.Revision20250618 {
		return a
	}
	out := *a
	out.LastModified = nil
	return &out
}

func projectTool(rev mcp.Revision, t *mcp.Tool) {
	if rev < mcp.Revision20251125 {
		t.Icons, t.Execution = nil, nil
	}
	if rev < mcp.Revision20250618 {
		if t.Title != nil && (t.Annotations == nil || t.Annotations.Title == nil) { // where it was then
			var hints mcp.ToolAnnotations
			if t.Annotations != nil {
				hints = *t.Annotations
			}
			hints.Title = t.Title
			t.Annotations = &hints
		}
		t.Title, t.OutputSchema, t.Meta = nil, nil, nil
	}
	forget(rev < mcp.Revision20250326, &t.Annotations)
}

func projectResource(rev mcp.Revision, r *mcp.Resource) {
	if rev < mcp.Revision20251125 {
		r.Icons = nil
	}
	forget(rev < mcp.Revision20250618, &r.Title)
	forget(rev < mcp.Revision20250618, &r.Meta)
	r.Annotations = projectAnnotations(rev, r.Annotations)
}

func projectTemplate(rev mcp.Revision, t *mcp.ResourceTemplate) {
	if rev < mcp.Revision20251125 {
		t.Icons = nil
	}
	forget(rev < mcp.Revision20250618, &t.Title)
	forget(rev < mcp.Revision20250618, &t.Meta)
	t.Annotations = projectAnnotations(rev, t.Annotations)
}

func projectPrompt(rev mcp.Revision, p *mcp.Prompt) {
	if rev < mcp.Revision20251125 {
		p.Icons = nil
	}
	if rev >= mcp.Revision20250618 {
		return
	}
	p.Title, p.Meta = nil, nil
	arguments := make([]mcp.PromptArgument, len(p.Arguments))
	for i, a := range p.Arguments {
		a.Title = nil
		arguments[i] = a
	}
	if p.Arguments != nil {
		p.Arguments = arguments
	}
}

// projectHello returns the answer to initialize as a revision has it.
func projectHello(rev mcp.Revision, hello *mcp.InitializeResult) *mcp.InitializeResult {
	out := *hello
	if rev < mcp.Revision20251125 {
		out.ServerInfo.Description, out.ServerInfo.Icons, out.ServerInfo.WebsiteURL = nil, nil, nil
		out.Capabilities.Tasks = nil
	}
	forget(rev < mcp.Revision20250618, &out.ServerInfo.Title)
	if rev < mcp.Revision20250326 {
		out.Capabilities.Completions = nil
	}
	return &out
}

// forget sets a pointer to nil if old is set.
func forget[T any](old bool, p **T) {
	if old {
		*p = nil
	}
}

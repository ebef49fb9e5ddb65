// Package results gives the results of a server the form that the revision of their request has.
// [Project] replaces what older revisions lack, and a [Completer] adds the members that all results
// of revisions without sessions have.
package results

import (
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
)

// Project converts a result to a revision. [mcp.Project] removes the members that the revision does
// not define. In addition, Project replaces some parts with an equivalent that the revision
// defines. It copies content before it changes it, because handlers can return the same content
// again.
func Project(rev mcp.Revision, result codec.Encoder) codec.Encoder {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		return projectToolResult(rev, r)
	case *mcp.GetPromptResult:
		var out *mcp.GetPromptResult
		for i, m := range r.Messages {
			block := DescribeBlock(rev, m.Content)
			if block == m.Content {
				continue
			}
			if out == nil {
				out = new(*r)
				out.Messages = slices.Clone(r.Messages)
				result = out
			}
			out.Messages[i].Content = block
		}
	case *mcp.ListToolsResult:
		for i := range r.Tools { // the list belongs to the server
			moveTitle(rev, &r.Tools[i])
		}
	}
	return mcp.Project(rev, result)
}

// projectToolResult is Project for the result of a tool. Where the revision lacks structured
// output, a result without content gets it as a text block.
func projectToolResult(rev mcp.Revision, result *mcp.CallToolResult) *mcp.CallToolResult {
	r := result
	if content, changed := describe(rev, r.Content); changed {
		r = new(*r)
		r.Content = content
	}
	out := mcp.Project(rev, r)
	if len(out.Content) == 0 && len(r.StructuredContent) > 0 && out.StructuredContent == nil { // out is a copy
		out.Content = []mcp.ContentBlock{&mcp.TextContent{Text: string(r.StructuredContent)}}
	}
	return out
}

// describe replaces the blocks that a revision does not define with texts, so that older clients
// can show that content is missing. It reports whether it replaced any.
func describe(rev mcp.Revision, blocks []mcp.ContentBlock) (content []mcp.ContentBlock, changed bool) {
	content = blocks
	for i, before := range blocks {
		block := DescribeBlock(rev, before)
		if block == before {
			continue
		}
		if !changed {
			content, changed = slices.Clone(blocks), true
		}
		content[i] = block
	}
	return content, changed
}

// DescribeBlock returns the block, or a text that describes it if the revision does not define its
// type.
func DescribeBlock(rev mcp.Revision, block mcp.ContentBlock) mcp.ContentBlock {
	switch b := block.(type) {
	case *mcp.AudioContent:
		if !rev.Defines("AudioContent") {
			return &mcp.TextContent{Text: "[sound of type " + b.MIMEType + "]", Annotations: b.Annotations}
		}
	case *mcp.ResourceLink:
		if !rev.Defines("ResourceLink") {
			return &mcp.TextContent{Text: linkText(b), Annotations: b.Annotations}
		}
	}
	return block
}

// linkText describes a link to a resource.
func linkText(b *mcp.ResourceLink) string {
	parts := []string{"[resource", b.Name}
	if b.Description != nil {
		parts = append(parts, "("+*b.Description+")")
	}
	return strings.Join(parts, " ") + ": " + b.URI + "]"
}

// moveTitle copies the title of a tool to its annotations, where revisions before 2025-06-18 have
// it. Revisions with the definition BaseMetadata have the member title of tools, too.
func moveTitle(rev mcp.Revision, t *mcp.Tool) {
	if t.Title == nil || t.Annotations != nil && t.Annotations.Title != nil || rev.Defines("BaseMetadata") {
		return
	}
	var hints mcp.ToolAnnotations
	if t.Annotations != nil {
		hints = *t.Annotations
	}
	hints.Title = t.Title
	t.Annotations = &hints
}

// ProjectInitialize converts the result of initialize to a revision. It keeps the extensions:
// clients negotiate them in all revisions, although only 2026-07-28 defines the member.
func ProjectInitialize(rev mcp.Revision, result *mcp.InitializeResult) *mcp.InitializeResult {
	out := mcp.Project(rev, result)
	if out != result {
		out.Capabilities.Extensions = result.Capabilities.Extensions
	}
	return out
}

package server

import (
	"errors"
	"fmt"
	"mime"
	"reflect"
	"strings"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// Before content is sent, the functions of this file reject what the protocol does not admit.

// internalError returns the error for an invalid result of a handler. The client receives its text,
// which names the cause.
func internalError(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: " + fmt.Sprintf(format, args...)}
}

// checkBlocks checks content blocks. Its error names the first invalid one.
func checkBlocks(blocks []mcp.ContentBlock) error {
	for i, block := range blocks {
		if text, ok := block.(*mcp.TextContent); ok && text != nil && text.Annotations == nil {
			continue
		}
		if err := checkBlock(block); err != nil {
			return fmt.Errorf("content %d: %w", i, err)
		}
	}
	return nil
}

// checkBlock rejects binary data that is not base64, a missing or malformed media type, a resource
// without a valid URI, and annotations with an undefined role or an invalid priority (MCP tools,
// "Tool Result").
func checkBlock(block mcp.ContentBlock) error {
	if isNil(block) {
		return errors.New("nil content")
	}
	switch b := block.(type) {
	case *mcp.TextContent:
		return checkAnnotations(b.Annotations)
	case *mcp.ImageContent:
		return errors.Join(checkBinary("image", b.Data, &b.MIMEType), checkAnnotations(b.Annotations))
	case *mcp.AudioContent:
		return errors.Join(checkBinary("audio", b.Data, &b.MIMEType), checkAnnotations(b.Annotations))
	case *mcp.ResourceLink:
		if !uriSyntax.MatchString(b.URI) {
			return fmt.Errorf("resource link without a valid URI: %q", b.URI)
		}
		return checkAnnotations(b.Annotations)
	case *mcp.EmbeddedResource:
		return errors.Join(checkContents(b.Resource), checkAnnotations(b.Annotations))
	}
	return nil
}

// isNil reports whether a value is nil, or a nil pointer.
func isNil(v any) bool {
	p := reflect.ValueOf(v)
	return !p.IsValid() || p.Kind() == reflect.Pointer && p.IsNil()
}

// checkContents checks the contents of a resource by the rules of checkBlock.
func checkContents(contents mcp.AnyResourceContents) error {
	if isNil(contents) {
		return errors.New("resource without contents")
	}
	uri, mimeType, blob := "", (*string)(nil), ""
	switch c := contents.(type) {
	case *mcp.TextResourceContents:
		uri, mimeType = c.URI, c.MIMEType
	case *mcp.BlobResourceContents:
		uri, mimeType, blob = c.URI, c.MIMEType, c.Blob
	default:
		return nil
	}
	if !uriSyntax.MatchString(uri) {
		return fmt.Errorf("resource without a valid URI: %q", uri)
	}
	return checkBinary("resource", blob, mimeType)
}

// checkBinary rejects data that is not base64, and a malformed media type. The media type may be
// nil.
func checkBinary(kind, data string, mimeType *string) error {
	if !isBase64(data) {
		return fmt.Errorf("%s data is not base64", kind)
	}
	if mimeType == nil {
		return nil
	}
	if parsed, _, err := mime.ParseMediaType(*mimeType); err != nil || !strings.Contains(parsed, "/") {
		return fmt.Errorf("%s without a valid media type: %q", kind, *mimeType)
	}
	return nil
}

// isBase64 reports whether text is padded base64 without line breaks (RFC 4648, Section 4).
func isBase64(text string) bool {
	if len(text)%4 != 0 {
		return false
	}
	text = strings.TrimSuffix(strings.TrimSuffix(text, "="), "=")
	for i := range len(text) {
		c := text[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '+' && c != '/' {
			return false
		}
	}
	return true
}

func checkAnnotations(a *mcp.Annotations) error {
	if a == nil {
		return nil
	}
	if err := a.Validate(latest()); err != nil {
		return fmt.Errorf("annotations: %w", err)
	}
	return nil
}

// checkPrompt rejects messages whose role is neither user nor assistant, content that checkBlock
// rejects, and embedded resources without a media type (MCP prompts, "PromptMessage").
func checkPrompt(messages []mcp.PromptMessage) error {
	for i, m := range messages {
		if m.Role != mcp.RoleUser && m.Role != mcp.RoleAssistant {
			return fmt.Errorf("message %d: role %q, want user or assistant", i, m.Role)
		}
		if err := checkBlock(m.Content); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if embedded, ok := m.Content.(*mcp.EmbeddedResource); ok && !hasMediaType(embedded.Resource) {
			return fmt.Errorf("message %d: resource without a media type", i)
		}
	}
	return nil
}

func hasMediaType(contents mcp.AnyResourceContents) bool {
	switch c := contents.(type) {
	case *mcp.TextResourceContents:
		return c.MIMEType != nil
	case *mcp.BlobResourceContents:
		return c.MIMEType != nil
	}
	return true
}

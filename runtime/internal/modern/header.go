package modern

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
)

// The header fields that repeat parts of a modern request, in the canonical form of package http
// (MCP Streamable HTTP, "Request Metadata").
const (
	HeaderVersion = "Mcp-Protocol-Version" // the version in _meta
	HeaderMethod  = "Mcp-Method"           // the method
	HeaderName    = "Mcp-Name"             // the param that NameParam names
	HeaderParam   = "Mcp-Param-"           // followed by a name; an argument of a tool
)

// NameParam returns the member of the params of a method that [HeaderName] repeats, or "".
func NameParam(method string) string {
	switch method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		return "name"
	case mcp.MethodResourcesRead:
		return "uri"
	case tasks.MethodTasksGet, tasks.MethodTasksUpdate, tasks.MethodTasksCancel:
		return "taskId"
	}
	return ""
}

// The text around a value in Base64.
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// Strict Base64: each text has exactly one encoding.
var encoding = base64.StdEncoding.Strict()

var (
	errHeaderBytes  = errors.New("a character is not visible ASCII, space or tab")
	errHeaderBase64 = errors.New("invalid Base64")
	errHeaderUTF8   = errors.New("the decoded Base64 is not UTF-8")
)

// DecodeHeader returns the text of a value of [HeaderName] or [HeaderParam] fields (MCP Streamable
// HTTP, "Value Encoding"). Space and tabs around the value are removed. The text between exactly
// "=?base64?" and "?=" is decoded from Base64 with padding. Any other value is the text itself.
// DecodeHeader fails if the value is neither.
func DecodeHeader(value string) (text string, err error) {
	value = strings.Trim(value, " \t")
	for i := range len(value) {
		if c := value[i]; (c < ' ' || c > '~') && c != '\t' {
			return "", errHeaderBytes
		}
	}
	encoded, ok := cutEncoded(value)
	if !ok {
		return value, nil
	}
	decoded, err := encoding.DecodeString(encoded)
	switch {
	case err != nil:
		return "", errHeaderBase64
	case !utf8.Valid(decoded):
		return "", errHeaderUTF8
	}
	return string(decoded), nil
}

// cutEncoded returns the Base64 in value. ok is false if value is not encoded.
func cutEncoded(value string) (encoded string, ok bool) {
	if encoded, ok = strings.CutPrefix(value, encodedPrefix); !ok {
		return "", false
	}
	return strings.CutSuffix(encoded, encodedSuffix)
}

// EncodeHeader returns the value for a text in a [HeaderName] or [HeaderParam] field. It uses
// Base64 for a text that would otherwise change on its way, or be taken for Base64. The text must
// be UTF-8. A tab is a control character, which intermediaries may replace by a space.
func EncodeHeader(text string) (value string) {
	plain := strings.Trim(text, " ") == text
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			plain = false
		}
	}
	if _, encoded := cutEncoded(text); plain && !encoded {
		return text
	}
	return encodedPrefix + encoding.EncodeToString([]byte(text)) + encodedSuffix
}

// PlainHeader returns the text of the value of a header field that does not use Base64.
func PlainHeader(value string) (text string, err error) { return strings.Trim(value, " \t"), nil }

// CompareHeader returns an error with CodeHeaderMismatch unless a header, with names in the
// canonical form of package http, has exactly one field of a name, with the text that the message
// has.
func CompareHeader(header map[string][]string, name, want string, decode func(string) (string, error)) *jsonrpc.Error {
	mismatch := func(format string, args ...any) *jsonrpc.Error {
		return &jsonrpc.Error{Code: CodeHeaderMismatch, Message: "header mismatch: " + fmt.Sprintf(format, args...)}
	}
	values := header[name]
	switch len(values) {
	case 1:
	case 0:
		return mismatch("%s is missing", name)
	default:
		return mismatch("%s occurs %d times", name, len(values))
	}
	text, err := decode(values[0])
	switch {
	case err != nil:
		return mismatch("%s: %.100q: %v", name, values[0], err)
	case text != want:
		return mismatch("%s is %.100q, but the message has %.100q", name, text, want)
	}
	return nil
}

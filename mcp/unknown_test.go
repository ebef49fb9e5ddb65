package mcp_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/oracle"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
)

// unions are the functions that read a union, by package and name.
var unions = map[string]func(*wire.Reader) codec.Encoder{
	"mcp.DecodeAnyResourceContents":            anyUnion(mcp.DecodeAnyResourceContents),
	"mcp.DecodeCallToolOutcome":                anyUnion(mcp.DecodeCallToolOutcome),
	"mcp.DecodeCompletionReference":            anyUnion(mcp.DecodeCompletionReference),
	"mcp.DecodeContentBlock":                   anyUnion(mcp.DecodeContentBlock),
	"mcp.DecodeCreateMessageOutcome":           anyUnion(mcp.DecodeCreateMessageOutcome),
	"mcp.DecodeElicitOutcome":                  anyUnion(mcp.DecodeElicitOutcome),
	"mcp.DecodeElicitRequestParams":            anyUnion(mcp.DecodeElicitRequestParams),
	"mcp.DecodeElicitResultContentValue":       anyUnion(mcp.DecodeElicitResultContentValue),
	"mcp.DecodeEnumSchema":                     anyUnion(mcp.DecodeEnumSchema),
	"mcp.DecodeGetPromptOutcome":               anyUnion(mcp.DecodeGetPromptOutcome),
	"mcp.DecodeInputRequest":                   anyUnion(mcp.DecodeInputRequest),
	"mcp.DecodeInputResponse":                  anyUnion(mcp.DecodeInputResponse),
	"mcp.DecodeMultiSelectEnumSchema":          anyUnion(mcp.DecodeMultiSelectEnumSchema),
	"mcp.DecodePrimitiveSchemaDefinition":      anyUnion(mcp.DecodePrimitiveSchemaDefinition),
	"mcp.DecodeReadResourceOutcome":            anyUnion(mcp.DecodeReadResourceOutcome),
	"mcp.DecodeSamplingMessageContentBlock":    anyUnion(mcp.DecodeSamplingMessageContentBlock),
	"mcp.DecodeSingleSelectEnumSchema":         anyUnion(mcp.DecodeSingleSelectEnumSchema),
	"tasks.DecodeDetailedTask":                 anyUnion(tasks.DecodeDetailedTask),
	"tasks.DecodeGetTaskResult":                anyUnion(tasks.DecodeGetTaskResult),
	"tasks.DecodeTaskStatusNotificationParams": anyUnion(tasks.DecodeTaskStatusNotificationParams),
}

func anyUnion[T codec.Encoder](read func(*wire.Reader) T) func(*wire.Reader) codec.Encoder {
	return func(r *wire.Reader) codec.Encoder { return read(r) }
}

// Every union keeps unknown values of every JSON type unchanged.
func TestEveryUnionKeepsUnknownVariants(t *testing.T) {
	for name, read := range unions {
		for _, text := range []string{
			`{"type":"x-future","payload":[1.50,{"a":null}]}`, `{"method":"x/future","params":{"a":1e400}}`, `{"mode":"x-future"}`,
			`{"status":"x-future"}`, `{"resultType":"x-future"}`, `{"x-future":{"a":[]}}`, `{"type":7,"method":null,"mode":[]}`, `{}`, `[]`, `["x-future"]`,
			`"x-future"`, `""`, `7`, `-0.0`, `1e400`, `true`, `null`,
		} {
			v, err := codec.UnmarshalFunc([]byte(text), read)
			if err != nil {
				t.Errorf("%s: %s: %v", name, text, err)
				continue
			}
			if d := oracle.Diff([]byte(text), []byte(encode(t, v))); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		}
	}
}

func TestUnionTestsCoverEveryUnion(t *testing.T) {
	var want, got []string
	for name := range unions {
		got = append(got, name)
	}
	for dir, pkg := range map[string]string{".": "mcp", "ext/tasks": "tasks"} {
		file, err := parser.ParseFile(token.NewFileSet(), dir+"/unions.go", nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Decode") {
				want = append(want, pkg+"."+f.Name.Name)
			}
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("functions (-in the package +here):\n%s", diff)
	}
}

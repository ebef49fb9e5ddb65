package protocol_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/internal/schemadocs"
	"github.com/mcpwire/mcpwire/schema"
)

// madeUp is a revision that exists only here. It is 2025-11-25 with the method weather/get and its
// capability weather, the member tagline of tools, and the content block VideoContent, but without
// the method logging/setLevel.
const madeUp = "2026-01-15"

// handWritten are the lines that a developer must write to support madeUp. The rest is generated
// from the schema. For a published revision, schema/docs.md and the list in schema/schema_test.go
// also change, which affects comments and tests alone.
var handWritten = []struct{ file, before, line, reason string }{
	{
		file: "internal/gen/protocol/capabilities.json", before: `  {"methods": ["initialize",`,
		line:   `  {"of": "receiver", "needs": "weather", "methods": ["weather/get"]},`,
		reason: "schemas do not state which capability a method needs",
	},
}

// TestMadeUpRevision adds a revision to a copy of the repository, generates, and runs a server and
// clients of the new and of the previous revision. It fails if that needs more lines than
// handWritten.
func TestMadeUpRevision(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a copy of the repository")
	}
	dir := t.TempDir()
	copyModule(t, dir)
	write := func(file string, data []byte) {
		file = filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("schema/"+madeUp+"/schema.json", madeUpSchema(t))
	for _, l := range handWritten {
		src, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(l.file)))
		if err != nil {
			t.Fatal(err)
		}
		before, after, ok := bytes.Cut(src, []byte(l.before))
		if !ok {
			t.Fatalf("%s has no text %q", l.file, l.before)
		}
		write(l.file, bytes.Join([][]byte{before, []byte(l.line), []byte("\n"), []byte(l.before), after}, nil))
		t.Logf("%s: %s\n\t%s", l.file, l.reason, l.line)
	}
	trial, err := os.ReadFile("testdata/trial.go")
	if err != nil {
		t.Fatal(err)
	}
	write("trial/main.go", trial)

	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -trimpath -ldflags=-w", "GOPROXY=off", "GOWORK=off")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, &stderr)
		}
		return string(out)
	}
	run("run", "./tools/generate")
	const want = `session of 2026-01-15
weather/get: {"report":"sunny"}
tools/list: the tagline is "short"
tools/call: *mcp.VideoContent *mcp.TextContent
logging/setLevel: refused
session of 2025-11-25
weather/get: refused
tools/list: no tagline
tools/call: *mcp.TextContent
logging/setLevel: accepted
`
	if diff := cmp.Diff(want, run("run", "./trial")); diff != "" {
		t.Errorf("the trial printed (-want +got):\n%s", diff)
	}
}

// copyModule copies the sources of the generator and the runtime, without tests.
func copyModule(t *testing.T, dir string) {
	const root = "../../.."
	for _, part := range []string{"go.mod", "go.sum", "codec", "gen", "internal", "mcp", "runtime", "schema", "tools/generate"} {
		err := filepath.WalkDir(filepath.Join(root, part), func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			switch to := filepath.Join(dir, rel); {
			case d.IsDir() && d.Name() == "testdata":
				return filepath.SkipDir
			case d.IsDir():
				return os.MkdirAll(to, 0o755)
			case strings.HasSuffix(file, "_test.go"):
				return nil
			default:
				src, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
					return err
				}
				return os.WriteFile(to, src, 0o644)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// madeUpSchema returns the schema of madeUp.
func madeUpSchema(t *testing.T) []byte {
	src, err := schema.Read("2025-11-25")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(src, &doc); err != nil {
		t.Fatal(err)
	}
	defs := doc["$defs"].(map[string]any)
	// add decodes text to the member at path.
	add := func(text string, path ...string) {
		t.Helper()
		at := defs
		for _, step := range path[:len(path)-1] {
			at = at[step].(map[string]any)
		}
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		last := path[len(path)-1]
		if list, ok := at[last].([]any); ok {
			v = append(list, v)
		}
		at[last] = v
	}
	add(`{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}`, "GetWeatherRequestParams")
	add(`{"type": "object", "properties": {"id": {"$ref": "#/$defs/RequestId"}, "jsonrpc": {"const": "2.0", "type": "string"},
		"method": {"const": "weather/get", "type": "string"}, "params": {"$ref": "#/$defs/GetWeatherRequestParams"}},
		"required": ["id", "jsonrpc", "method", "params"]}`, "GetWeatherRequest")
	add(`{"type": "object", "properties": {"report": {"type": "string"}}, "required": ["report"]}`, "GetWeatherResult")
	add(`{"$ref": "#/$defs/GetWeatherRequest"}`, "ClientRequest", "anyOf")
	add(`{"$ref": "#/$defs/GetWeatherResult"}`, "ServerResult", "anyOf")
	add(`{"type": "object", "properties": {"forecast": {"type": "boolean"}}}`, "ServerCapabilities", "properties", "weather")
	add(`{"type": "string"}`, "Tool", "properties", "tagline")
	add(`{"type": "object", "properties": {"type": {"const": "video", "type": "string"}, "data": {"type": "string"}, "mimeType": {"type": "string"}},
		"required": ["type", "data", "mimeType"]}`, "VideoContent")
	add(`{"$ref": "#/$defs/VideoContent"}`, "ContentBlock", "anyOf")

	delete(defs, "SetLevelRequest")
	delete(defs, "SetLevelRequestParams")
	requests := defs["ClientRequest"].(map[string]any)
	for i, r := range requests["anyOf"].([]any) {
		if r.(map[string]any)["$ref"] == "#/$defs/SetLevelRequest" {
			list := requests["anyOf"].([]any)
			requests["anyOf"] = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := schemadocs.Canonical(out)
	if err != nil {
		t.Fatal(err)
	}
	return canonical
}

package trace_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
	"github.com/mcpwire/mcpwire/runtime/transport/tap"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

func TestReadRecordOfTap(t *testing.T) {
	var file bytes.Buffer
	x, y := inmemory.Pair(inmemory.Options{})
	defer x.Close()
	defer y.Close()
	conn := tap.NewRecorder(&file).Wrap(x, "a", mcp.FromClient)
	for _, text := range []string{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "\xff", "no JSON"} {
		if err := conn.Write(t.Context(), transport.Message{Text: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := trace.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := rec.Print(&out); err != nil || strings.Count(out.String(), "\n") < 3 || !strings.Contains(out.String(), "ping") {
		t.Errorf("%v:\n%s", err, &out)
	}
}

package mcpwire_test

import "testing"

// observabilityImports are the packages that snippets of docs/howto/observability.md may use.
var observabilityImports = []string{
	"context", "log/slog", "os",
	"github.com/mcpwire/mcpwire/runtime/client",
	"github.com/mcpwire/mcpwire/runtime/otel",
	"github.com/mcpwire/mcpwire/runtime/task",
}

// TestObservabilityPage builds and runs the program of docs/howto/observability.md, and compiles
// its snippets.
func TestObservabilityPage(t *testing.T) {
	blocks := pageBlocks(t, "docs/howto/observability.md")
	runBlocks(t, blocks)
	if n := compileSnippets(t, t.TempDir(), blocks, "", "telemetry *otel.Telemetry, store task.Store", observabilityImports); n != 3 {
		t.Errorf("%d snippets were found, want 3", n)
	}
}

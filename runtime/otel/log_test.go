package otel_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/otel"
)

func TestLogHandlerKeepsIDsOutOfGroups(t *testing.T) {
	p := newProcess(t)
	ctx, span := p.provider.Tracer("test").Start(t.Context(), "call")
	defer span.End()
	var out bytes.Buffer
	plain := slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey && len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}})
	log := slog.New(otel.LogHandler(plain)).With("a", 1).WithGroup("app").With("b", 2)
	log.WithGroup("db").InfoContext(ctx, "read", "n", 3)
	log.InfoContext(ctx, "done")
	log.WithGroup("").WithGroup("empty").Info("idle")
	ids := `"trace_id":"` + span.SpanContext().TraceID().String() + `","span_id":"` + span.SpanContext().SpanID().String() + `"}` + "\n"
	want := `{"level":"INFO","msg":"read","a":1,"app":{"b":2,"db":{"n":3}},` + ids +
		`{"level":"INFO","msg":"done","a":1,"app":{"b":2},` + ids +
		`{"level":"INFO","msg":"idle","a":1,"app":{"b":2}}` + "\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
}

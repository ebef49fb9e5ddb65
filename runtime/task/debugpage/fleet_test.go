package debugpage_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/debugpage"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// The page of one member shows what the others hold, and takes a task over.
func TestFleet(t *testing.T) {
	f := memory.NewFleet()
	started := make(chan string, 1)
	join := func(name string) (*task.Manager, http.Handler) {
		store := f.Store()
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if entries, _, err := run.Journal(ctx); err != nil {
				return nil, err
			} else if len(entries) == 0 {
				if err := run.Record(ctx, task.Entry{Key: "fetch", Occurrence: 1, Result: []byte(`"page"`)}); err != nil {
					return nil, err
				}
			}
			started <- name
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		m, err := task.New(t.Context(), task.Config{
			Store: store, Member: task.Member{Name: name}, Recover: func(task.Record) task.Work { return work }, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close(context.Background()) })
		return m, debugpage.New(debugpage.Config{Store: store, Members: m.Members, TakeOver: m.TakeOver})
	}
	first, _ := join("first")
	_, page := join("second")
	work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		run.Record(ctx, task.Entry{Key: "fetch", Occurrence: 1, Result: []byte(`"page"`)})
		started <- "first"
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	created, err := first.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Name: "report", Restartable: true, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	holder := first.Members()[0].ID
	if list := get(t, page, "/", http.StatusOK); !strings.Contains(list, "first") || !strings.Contains(list, "second") {
		t.Errorf("the list has not both members:\n%s", list)
	}
	view := "/?task=" + created.TaskID
	if text := get(t, page, view, http.StatusOK); !strings.Contains(text, holder) || !strings.Contains(text, "fetch") {
		t.Errorf("the view has no holder or no journal:\n%s", text)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/?takeover="+created.TaskID, nil))
	if w.Code != http.StatusSeeOther {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if name := <-started; name != "second" {
		t.Errorf("the task runs at %s", name)
	}
	if text := get(t, page, view, http.StatusOK); !strings.Contains(text, "claim 2") {
		t.Errorf("the holder is the same:\n%s", text)
	}
	if _, err := first.CancelForOperator(t.Context(), created.TaskID); err != nil {
		t.Fatal(err)
	}
	w = httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/?takeover="+created.TaskID, nil))
	if w.Code != http.StatusSeeOther || strings.Contains(get(t, page, view, http.StatusOK), "takeover") {
		t.Errorf("a terminal task can be taken over: status %d", w.Code)
	}
}

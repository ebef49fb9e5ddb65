package debugpage_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/debugpage"
)

// The page of one member shows what the others hold, and takes a task over.
func TestFleet(t *testing.T) {
	f := memory.NewFleet()
	started := make(chan string, 10)
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
		history := debugpage.NewHistory(0)
		m, err := task.New(t.Context(), task.Options{
			Store: store, Member: task.Member{Name: name, Labels: []string{"gpu", "of-" + name}}, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }}, Logger: slog.New(slog.DiscardHandler),
			Hooks: task.Hooks{Audit: history.Add, Queried: history.Respond},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close(context.Background()) })
		return m, debugpage.New(debugpage.Options{Store: store, Members: m.Members, TakeOver: m.Internals(boundary.Caller{}).TakeOver, History: history, Query: m.Internals(boundary.Caller{}).Query})
	}
	first, _ := join("first")
	second, page := join("second")
	work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		run.Record(ctx, task.Entry{Key: "fetch", Occurrence: 1, Result: []byte(`"page"`)})
		started <- "first"
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	created, err := first.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Name: "report", Restartable: true, Labels: []string{"gpu"}, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	<-started
	holder := first.Members()[0].ID
	list := get(t, page, "/", http.StatusOK)
	for i, want := range [][]string{
		{"first", "alive", "all", "20s of 20s", "1", "0", "0", "1"}, {"second", "alive", "all", "20s of 20s", "0", "0", "0", "0"},
	} {
		row := rows(t, list, "members")[i]
		if got := slices.Concat(row[:3], row[4:9]); !slices.Equal(got, want) {
			t.Errorf("a member is shown as %q, want %q", got, want)
		}
		if got := row[len(row)-1]; got != "gpu of-"+want[0] {
			t.Errorf("the labels of a member are shown as %q", got)
		}
	}
	if row := rows(t, list, "tasks")[0]; row[3] != "first" {
		t.Errorf("the task is shown as %q", row)
	}
	for id, n := range map[string]int{holder: 1, second.Members()[1].ID: 0, "": 0} {
		if held := rows(t, get(t, page, "/?status=all&holder="+id, http.StatusOK), "tasks"); len(held) != n {
			t.Errorf("%d tasks are shown as held by %q, want %d", len(held), id, n)
		}
	}
	view := "/?task=" + created.TaskID
	if text := get(t, page, view, http.StatusOK); !strings.Contains(text, holder) || !strings.Contains(text, "fetch") || !strings.Contains(text, "<th>Labels<td><bdi>gpu</bdi>") {
		t.Errorf("the view has no holder, no journal or no labels:\n%s", text)
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/?takeover="+created.TaskID, nil))
	if w.Code != http.StatusSeeOther {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	if name := <-started; name != "second" {
		t.Errorf("the task runs at %s", name)
	}
	text := get(t, page, view, http.StatusOK)
	if !strings.Contains(text, "claim 2") {
		t.Errorf("the holder is the same:\n%s", text)
	}
	events := rows(t, text, "history")
	if len(events) != 2 || events[0][1] != "created" || events[0][3] != "first" || events[1][1] != "recovered" || events[1][3] != "second" {
		t.Errorf("the history of both members is %q", events)
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

// The page tells a member that drains, one that the store does not hear from, and a holder that is
// dead from the others, and says whose history is missing.
func TestFleetInTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		join := func(name string, respond func([]byte) []byte) (*memory.FleetStore, *task.Manager) {
			store := f.Store()
			m, err := task.New(t.Context(), task.Options{
				Store: store, Member: task.Member{Name: name, Tools: []string{"other"}}, Logger: slog.New(slog.DiscardHandler), Hooks: task.Hooks{Queried: respond},
				Recovery: task.Recovery{Recover: func(task.Record) task.Work { return wait }},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close(context.Background()) })
			return store, m
		}
		history := debugpage.NewHistory(0)
		store, m := join("watcher", history.Respond)
		page := debugpage.New(debugpage.Options{Store: store, Members: m.Members, Query: m.Internals(boundary.Caller{}).Query, History: history, Stats: m.Stats})
		silent, _ := join("silent", history.Respond)
		_, draining := join("draining", nil)
		if err := draining.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		put(t, store, task.Record{ID: "one", Status: mcp.TaskStatusWorking, Restartable: true, Durable: new(task.Durable), Created: time.Now(), Claim: task.Claim{Member: "departed", Epoch: 3}})
		put(t, store, task.Record{ID: "two", Status: mcp.TaskStatusCompleted, Created: time.Now(), Claim: task.Claim{Member: "departed", Epoch: 3}})
		silent.Cut()
		time.Sleep(5 * time.Second)
		list := get(t, page, "/", http.StatusOK)
		var got [][]string
		for _, row := range rows(t, list, "members") {
			got = append(got, []string{row[0], row[1], row[4]})
		}
		want := [][]string{{"(unknown)", "not alive", ""}, {"draining", "draining", "20s of 20s"}, {"silent", "alive", "15s of 20s"}, {"watcher", "alive", "20s of 20s"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("members (-want +got):\n%s", diff)
		}
		if row := rows(t, list, "tasks")[0]; row[3] != "departed not alive" {
			t.Errorf("the task is shown as %q", row)
		}
		if text := get(t, page, "/?task=one", http.StatusOK); !strings.Contains(text, "No history from <bdi>silent</bdi>, <bdi>draining</bdi>.") {
			t.Errorf("the view does not say whose history is missing:\n%s", text)
		}
		if text := get(t, page, "/?task=two", http.StatusOK); !strings.Contains(text, "none any longer") {
			t.Errorf("a terminal task has a holder:\n%s", text)
		}
	})
}

// The view of a task does not wait longer than a second for members that do not respond, and a
// response has at most the latest thousand events.
func TestHistoryOfSilentMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		history := debugpage.NewHistory(0)
		for range 1001 {
			history.Add(task.Event{Kind: task.EventMoved, Task: "a"})
		}
		response := history.Respond([]byte("a"))
		if n := strings.Count(string(response), `"moved"`); n != 1000 {
			t.Errorf("%d events in a response", n)
		}
		page := debugpage.New(debugpage.Options{
			Store: store, History: history,
			Members: func() []task.Member { return []task.Member{{ID: "1", Name: "first"}, {ID: "2", Name: "second"}} },
			Query: func(ctx context.Context, request []byte) (map[string][]byte, error) {
				<-ctx.Done()
				return map[string][]byte{"1": response}, nil
			},
		})
		begun := time.Now()
		text := get(t, page, "/?task=a", http.StatusNotFound)
		if d := time.Since(begun); d != time.Second {
			t.Errorf("it took %v", d)
		}
		if !strings.Contains(text, "No history from <bdi>second</bdi>.") {
			t.Errorf("the page does not name the silent member:\n%s", text[len(text)-500:])
		}
	})
}

// The list shows the members although the store fails, or does not respond for five seconds.
func TestMembersWithoutStore(t *testing.T) {
	for name, scan := range map[string]func(ctx context.Context) error{
		"failed":           func(context.Context) error { return errors.New("failed") },
		"no answer for 5s": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			page := debugpage.New(debugpage.Options{
				Store: deadStore{memory.New(), scan},
				Members: func() []task.Member {
					return []task.Member{{ID: "1", Name: "first", Lease: time.Minute, Joined: time.Now(), Heard: time.Now()}}
				},
			})
			text := get(t, page, "/", http.StatusInternalServerError)
			if !strings.Contains(text, "The tasks cannot be read: <bdi>"+name+"</bdi>") {
				t.Errorf("the reason is missing:\n%s", text)
			}
			if got := rows(t, text, "members"); len(got) != 1 || got[0][0] != "first" || got[0][1] != "alive" {
				t.Errorf("members %q", got)
			}
		})
	}
}

// deadStore is a store whose Scan fails.
type deadStore struct {
	task.Store
	scan func(ctx context.Context) error
}

func (s deadStore) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) { yield(task.Record{}, s.scan(ctx)) }
}

// The list and the view of a task say for what it waits.
func TestPageSaysForWhatTasksWait(t *testing.T) {
	f := memory.NewFleet()
	store := f.Store()
	m, err := task.New(t.Context(), task.Options{Store: store, Member: task.Member{Tools: []string{}}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close(context.Background()) })
	work := func(context.Context, *task.Run) (codec.Encoder, error) { return nil, nil }
	created, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Name: "report", Restartable: true, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	page := debugpage.New(debugpage.Options{Store: store, Members: m.Members, WaitsFor: m.Internals(boundary.Caller{}).WaitsFor})
	for _, target := range []string{"/", "/?task=" + created.TaskID} {
		if got := get(t, page, target, http.StatusOK); !strings.Contains(got, "waits for a process that has the tool &#34;report&#34;") {
			t.Errorf("%s: %s", target, got)
		}
	}
}

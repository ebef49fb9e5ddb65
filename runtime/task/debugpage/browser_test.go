package debugpage_test

import (
	"context"
	"fmt"
	"html"
	"image"
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/browsertest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/debugpage"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// A browser shows the tasks of a Manager, among them one with a hostile message, and the page of
// that task with its history. Screenshots are written to the directory MCPWIRE_SCREENSHOTS, if set.
func TestBrowserShowsTasks(t *testing.T) {
	chromium := browsertest.Find(t)
	store, history := memory.New(), debugpage.NewHistory(0)
	m, err := task.New(t.Context(), task.Options{Store: store, Hooks: task.Hooks{Audit: history.Add}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	attacked := create(t, m, "alice", hostile[1], wait)
	completed := create(t, m, hostile[0], "", func(context.Context, *task.Run) (codec.Encoder, error) { return new(mcp.CallToolResult), nil })
	if _, err := m.Result(t.Context(), completed.owner, completed.id, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Get(t.Context(), "mallory", attacked.id, nil); err == nil {
		t.Fatal("the task of another principal was read")
	}
	server := httptest.NewServer(debugpage.New(debugpage.Options{Store: store, Stats: m.Stats, History: history}))
	defer server.Close()

	list := open(t, chromium, server.URL+"/?status=all", "list.png")
	ages := regexp.MustCompile(`^[0-9]+[sm]`)
	for _, table := range []struct {
		id   string
		want [][]string // without the columns of ages and sizes
	}{
		{"statuses", [][]string{{"working", "1"}, {"input_required", "0"}, {"completed", "1"}, {"failed", "0"}, {"cancelled", "0"}, {"live", "1"}, {"all", "2"}}},
		{"owners", [][]string{{"alice", "1", "1"}, {hostile[0], "0", "1"}}},
		{"counters", [][]string{
			{"created", "2"}, {"completed", "1"}, {"failed", "0"}, {"cancelled", "0"}, {"expired", "0"}, {"recovered", "0"}, {"reads", "1"},
			{"refused calls", "1"}, {"of those for foreign tasks", "1"},
		}},
		{"tasks", [][]string{{attacked.id, "working", "alice", "tools/call"}, {completed.id, "completed", hostile[0], "tools/call"}}},
	} {
		var got [][]string
		for _, row := range rows(t, list, table.id) {
			if strings.HasSuffix(row[0], " now") {
				continue // returned work may still be counted as running
			}
			if table.id == "tasks" {
				if len(row) != 9 || !ages.MatchString(row[5]) || !ages.MatchString(row[6]) {
					t.Errorf("row of a task: %q", row)
				}
				row = row[:4]
			} else if n := len(table.want[0]); len(row) > n {
				row = row[:n]
			}
			got = append(got, row)
		}
		if diff := cmp.Diff(table.want, got); diff != "" {
			t.Errorf("the table of %s (-want +got):\n%s", table.id, diff)
		}
	}
	for _, want := range []string{"<bdi>\"&gt;&lt;img src=x onerror=", "task of another principal", "<span class=\"status completed\">"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %s:\n%s", want, list)
		}
	}
	link := regexp.MustCompile(`href="(\?task=[^"]*)">` + attacked.id).FindStringSubmatch(list)
	if link == nil {
		t.Fatalf("no link to %s:\n%s", attacked.id, list)
	}
	detail := open(t, chromium, server.URL+"/"+link[1], "task.png")
	if !regexp.MustCompile(`(?s)id="history".*<td>created</td><td><span class="status working">`).MatchString(detail) {
		t.Errorf("no history:\n%s", detail)
	}
	for _, page := range []string{list, detail} {
		for _, bad := range []string{"<img", "<script", "<title>owned"} {
			if strings.Contains(page, bad) {
				t.Errorf("the browser interpreted a text as %s:\n%s", bad, page)
			}
		}
	}
}

// A browser cancels a task with the form of the page, but not for a page of another site.
func TestBrowserCancelsTask(t *testing.T) {
	chromium := browsertest.Find(t)
	store := memory.New()
	m, err := task.New(t.Context(), task.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	created := create(t, m, "alice", "", wait)
	page := debugpage.New(debugpage.Options{Store: store, Cancel: m.CancelForOperator})
	posted, statuses := make(chan int, 1), make(chan int, 1) // the status of a POST
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.Handle("GET /tasks", page)
	mux.HandleFunc("POST /tasks", func(w http.ResponseWriter, r *http.Request) {
		recorder := httptest.NewRecorder()
		page.ServeHTTP(recorder, r)
		posted <- recorder.Code
	})
	form := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" { // the page waits for this picture
			select {
			case status := <-posted:
				statuses <- status
			case <-r.Context().Done():
			}
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%s/tasks?cancel=%s" target="answer"></form><iframe name="answer"></iframe>
			<script>document.forms[0].submit()</script><img src="/wait">`, server.URL, created.id)
	}
	mux.HandleFunc("/", form)
	other := httptest.NewServer(http.HandlerFunc(form))
	defer other.Close()
	for _, step := range []struct {
		url, site string
		status    int
		want      mcp.TaskStatus
	}{
		{strings.Replace(other.URL, "127.0.0.1", "localhost", 1), "another site", http.StatusForbidden, mcp.TaskStatusWorking},
		{other.URL, "another port", http.StatusForbidden, mcp.TaskStatusWorking},
		{server.URL, "the page's own origin", http.StatusSeeOther, mcp.TaskStatusCancelled},
	} {
		chromium.Run(t, "--dump-dom", step.url)
		if status := <-statuses; status != step.status {
			t.Errorf("%s: status %d, want %d", step.site, status, step.status)
		}
		if state, err := m.Get(t.Context(), "alice", created.id, nil); err != nil || state.Status != step.want {
			t.Errorf("%s: %+v, %v", step.site, state, err)
		}
	}
}

// rows returns the cells of the table with an id, or in the section with that id, without the
// heading.
func rows(t *testing.T, document, id string) (list [][]string) {
	t.Helper()
	_, table, ok := strings.Cut(document, `id="`+id+`"`)
	if !ok {
		t.Fatalf("no table of %s:\n%s", id, document)
	}
	table, _, _ = strings.Cut(table, "</table>")
	tags := regexp.MustCompile(`<[^>]*>`)
	for _, row := range strings.Split(table, "<tr")[1:] {
		var cells []string
		for _, cell := range strings.Split(row, "<td")[1:] {
			cells = append(cells, strings.TrimSpace(html.UnescapeString(tags.ReplaceAllString("<td"+cell, ""))))
		}
		if cells != nil {
			list = append(list, cells)
		}
	}
	return list
}

type created struct{ owner, id string }

func create(t *testing.T, m *task.Manager, owner, message string, work task.Work) created {
	t.Helper()
	c, err := m.Create(t.Context(), task.Request{Principal: owner, Method: "tools/call", StatusMessage: message, Work: work})
	if err != nil {
		t.Fatal(err)
	}
	return created{owner, c.TaskID}
}

// wait is work that runs until its context ends.
func wait(ctx context.Context, _ *task.Run) (codec.Encoder, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// open opens a page in the browser and returns the document. It fails the test unless the colours of
// the style sheet are in the screenshot.
func open(t *testing.T, chromium browsertest.Program, url, name string) (document string) {
	t.Helper()
	document, path := chromium.Open(t, url, "1280,900", name)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	picture, _, err := image.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	warning := 0
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			if r, g, b, _ := picture.At(x, y).RGBA(); r>>8 == 0xff && g>>8 == 0xf4 && b>>8 == 0xd6 {
				warning++
			}
		}
	}
	if warning < 5000 {
		t.Errorf("%s: only %d pixels have the colour of the warning; the style sheet was not applied", name, warning)
	}
	return document
}

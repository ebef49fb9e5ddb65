package debugpage_test

import (
	"context"
	"errors"
	"fmt"
	"html"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/debugpage"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// hostile are texts that would change the page if they were not escaped.
var hostile = []string{
	`<script>document.title="owned"</script>`,
	`"><img src=x onerror="document.title='owned'">`,
	`'><svg onload=alert(1)>`,
	`</td></table><h1>All is well</h1>`,
	`javascript:alert(1)`,
	`{{.Store}}`,
	`<!--`,
	"]]>\x00\xff\u202e\u2028\r\n",
	strings.Repeat("<b>é", 5000),
}

// fill returns a store with one task and a history with events about it. All their text fields have
// the value text.
func fill(t *testing.T, text string) (task.Store, *debugpage.History) {
	t.Helper()
	store, history := memory.New(), debugpage.NewHistory(0)
	status := mcp.TaskStatus(text)
	now := time.Now().UTC()
	put(t, store, task.Record{
		ID: text, Owner: text, Status: status, StatusMessage: text, Created: now, Updated: now, Method: text,
		Params: []byte(text), Name: text, Runner: text, Job: text, Result: []byte(text), Error: []byte(text),
		InputRequests: []task.InputRequest{{Method: text, Params: []byte(text)}, {Method: text, Error: []byte(text)}},
		Claim:         task.Claim{Member: text, Epoch: 1}, Restartable: true, Reruns: 1,
		Durable: &task.Durable{Parked: true, Wake: now, Recorded: 1, Entries: []task.Entry{{Branch: text, Key: text, Occurrence: 1, Result: []byte(text)}}},
	})
	event := task.Event{Principal: text, Task: text, Method: text, From: status, To: status, Kind: string(text)}
	history.Add(event)
	event.Kind, event.Err, event.Foreign = task.EventRefused, errors.New(text), true
	history.Add(event)
	return store, history
}

func put(t *testing.T, store task.Store, r task.Record) {
	t.Helper()
	if _, err := store.Create(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// get returns the body of a view and checks its status code.
func get(t *testing.T, h http.Handler, target string, want int) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+target, nil))
	if w.Code != want {
		t.Fatalf("%s: status %d, want %d: %s", target, w.Code, want, w.Body)
	}
	return w.Body.String()
}

var (
	tag   = regexp.MustCompile(`(?s)<[^>]*>`)
	value = regexp.MustCompile(`(?s)="[^"]*"`)
)

// skeleton returns the markup of a page: its tags with the names of their attributes.
func skeleton(page string) []string {
	list := tag.FindAllString(page, -1)
	for i := range list {
		list[i] = value.ReplaceAllString(list[i], "=")
	}
	return list
}

// With hostile texts, the page has the same markup as with a harmless text, and all its links lead
// to its own views.
func TestHostileTextsAreEscaped(t *testing.T) {
	views := func(text string) []string {
		return []string{"/?status=all", "/?status=all&order=newest&owner=" + url.QueryEscape(text), "/?task=" + url.QueryEscape(text)}
	}
	pages := func(text string) (list []string) {
		store, history := fill(t, text)
		cancel := func(context.Context, string) (mcp.Task, error) { return mcp.Task{}, nil }
		h := debugpage.New(debugpage.Options{
			Store: store, History: history, Stats: func() task.Stats { return task.Stats{} }, Cancel: cancel,
			TakeOver: func(context.Context, string) error { return nil },
			Members: func() []task.Member {
				return []task.Member{{ID: "m", Name: text, Tools: []string{text}, Joined: time.Now()}}
			},
		})
		for _, view := range views(text) {
			list = append(list, get(t, h, view, http.StatusOK))
		}
		return list
	}
	link := regexp.MustCompile(`(?:href|action)="([^"]*)"`)
	harmless := pages("harmless")
	for _, text := range hostile {
		for i, page := range pages(text) {
			if len(text) > 256 && i == 2 {
				continue // the history has the truncated id
			}
			if diff := cmp.Diff(skeleton(harmless[i]), skeleton(page)); diff != "" {
				t.Errorf("%.40q, %.60s: -harmless +hostile\n%s", text, views(text)[i], diff)
			}
			for _, l := range link.FindAllStringSubmatch(page, -1) {
				if !strings.HasPrefix(l[1], "?") {
					t.Errorf("%.40q: foreign link %q", text, l[1])
				}
			}
		}
	}
}

func TestLongTextsAreTruncated(t *testing.T) {
	store, history := memory.New(), debugpage.NewHistory(0)
	text := strings.Repeat("<é>", 100_000)
	put(t, store, task.Record{ID: "long", Owner: "alice", Status: mcp.TaskStatusWorking, StatusMessage: text, Method: text})
	history.Add(task.Event{Kind: task.EventRefused, Principal: "alice", Task: text, Method: text, Err: errors.New(text)})
	h := debugpage.New(debugpage.Options{Store: store, History: history})
	for _, view := range []string{"/", "/?task=long"} {
		if page := get(t, h, view, http.StatusOK); len(page) > 40_000 || !strings.Contains(page, "…") || strings.Contains(page, "\ufffd") {
			t.Errorf("%s: a page of %d bytes\n%.5000s", view, len(page), page)
		}
	}
}

func TestResponseHeaders(t *testing.T) {
	h := debugpage.New(debugpage.Options{Store: memory.New()})
	server := httptest.NewServer(h)
	defer server.Close()
	tests := []struct {
		name, method, host, query string
		status                    int
		mime                      string
	}{
		{"list", "GET", "", "", 200, "text/html; charset=utf-8"},
		{"HEAD of the list", "HEAD", "localhost", "", 200, "text/html; charset=utf-8"},
		{"IPv6 address", "GET", "[::1]:80", "", 200, "text/html; charset=utf-8"},
		{"style sheet", "GET", "", "?style", 200, "text/css; charset=utf-8"},
		{"missing task", "GET", "", "?task=none", 404, "text/html; charset=utf-8"},
		{"invalid status", "GET", "", "?status=done", 400, "text/plain; charset=utf-8"},
		{"invalid position", "GET", "", "?after=here", 400, "text/plain; charset=utf-8"},
		{"POST", "POST", "", "", 405, "text/plain; charset=utf-8"},
		{"DELETE", "DELETE", "", "?task=none", 405, "text/plain; charset=utf-8"},
		{"foreign host name", "GET", "evil.example.com", "", 403, "text/plain; charset=utf-8"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+"/"+test.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = test.host
			resp, err := server.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.Header.Get("Content-Type"); resp.StatusCode != test.status || got != test.mime {
				t.Errorf("%d, %s; want %d, %s", resp.StatusCode, got, test.status, test.mime)
			}
			if policy := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none';") {
				t.Errorf("policy %q", policy)
			}
		})
	}
}

func TestPostCancelsTask(t *testing.T) {
	store := memory.New()
	m, err := task.New(t.Context(), task.Options{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	writable := debugpage.New(debugpage.Options{Store: store, Cancel: m.CancelForOperator})
	readOnly := debugpage.New(debugpage.Options{Store: store})
	form := regexp.MustCompile(`<form method="post" action="([^"]*)">`)
	for _, test := range []struct {
		name         string
		page         http.Handler
		method, host string
		header       map[string]string
		want         int
		cancelled    bool
	}{
		{"the page's own form", writable, "POST", "localhost", map[string]string{"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}, 303, true},
		{"an old browser", writable, "POST", "localhost:6060", map[string]string{"Origin": "http://localhost:6060"}, 303, true},
		{"a program", writable, "POST", "localhost", nil, 303, true},
		{"a page of another site", writable, "POST", "localhost", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403, false},
		{"a page of another port", writable, "POST", "localhost", map[string]string{"Sec-Fetch-Site": "same-site"}, 403, false},
		{"a page of another origin", writable, "POST", "localhost", map[string]string{"Origin": "http://evil.example.com"}, 403, false},
		{"a sandboxed page", writable, "POST", "localhost", map[string]string{"Origin": "null"}, 403, false},
		{"a foreign host name", writable, "POST", "evil.example.com", map[string]string{"Sec-Fetch-Site": "same-origin"}, 403, false},
		{"GET", writable, "GET", "localhost", nil, 200, false},
		{"PUT", writable, "PUT", "localhost", nil, 405, false},
		{"without Cancel", readOnly, "POST", "localhost", nil, 405, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			created := create(t, m, "alice", "", wait)
			target := "/tasks?cancel=" + created.id
			if f := form.FindStringSubmatch(get(t, test.page, "/tasks?confirm=cancel&task="+created.id, http.StatusOK)); (f != nil) != (test.page == writable) {
				t.Fatalf("form %q", f)
			} else if f != nil {
				target = "/tasks" + f[1]
			}
			r := httptest.NewRequest(test.method, "http://"+test.host+target, nil)
			for name, value := range test.header {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			test.page.ServeHTTP(w, r)
			if location := w.Header().Get("Location"); w.Code != test.want || test.cancelled != (location == "?task="+created.id) {
				t.Errorf("status %d, location %q, want %d", w.Code, location, test.want)
			}
			state, err := m.Get(t.Context(), "alice", created.id, nil)
			if got := state.Status == mcp.TaskStatusCancelled; err != nil || got != test.cancelled {
				t.Errorf("%+v, %v", state, err)
			}
		})
	}
	post := func(id string, want int) {
		t.Helper()
		w := httptest.NewRecorder()
		writable.ServeHTTP(w, httptest.NewRequest("POST", "http://localhost/tasks?cancel="+id, nil))
		if w.Code != want {
			t.Errorf("%s: status %d, want %d", id, w.Code, want)
		}
	}
	completed := create(t, m, "alice", "", func(context.Context, *task.Run) (codec.Encoder, error) { return new(mcp.CallToolResult), nil })
	if _, err := m.Result(t.Context(), "alice", completed.id, nil); err != nil {
		t.Fatal(err)
	}
	post(completed.id, http.StatusSeeOther)
	post("none", http.StatusNotFound)
}

func TestViewsRefreshThemselves(t *testing.T) {
	store := memory.New()
	put(t, store, task.Record{ID: "live", Status: mcp.TaskStatusWorking, Name: "render"})
	put(t, store, task.Record{ID: "over", Status: mcp.TaskStatusCompleted})
	h := debugpage.New(debugpage.Options{Store: store})
	for view, want := range map[string]bool{"/": true, "/?refresh=off": false, "/?order=newest&refresh=off": false, "/?task=live": true, "/?task=over": false, "/?status=all": true} {
		page := get(t, h, view, http.StatusOK)
		if got := strings.Contains(page, `<meta http-equiv="refresh" content="5">`); got != want {
			t.Errorf("%s: refreshes itself: %t", view, got)
		}
		if strings.Contains(view, "refresh=off") && strings.Count(page, "refresh=off") == 0 {
			t.Errorf("%s: links of the page do not keep refresh=off:\n%s", view, page)
		}
		if view != "/?task=over" && !strings.Contains(page, "<bdi>render</bdi>") {
			t.Errorf("%s: no name of the tool:\n%s", view, page)
		}
	}
}

// The pages of a list contain every matching task once, in order.
func TestPagesOfList(t *testing.T) {
	store := memory.New()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const n = 103
	var live []string
	for i := range n {
		r := task.Record{
			ID: fmt.Sprintf("task-%03d", i), Owner: []string{"alice", "bob", ""}[i%3], Status: mcp.TaskStatusWorking,
			Created: begin.Add(time.Duration(i/4) * time.Second), // four tasks have the same time
		}
		if i%5 == 0 {
			r.Status = mcp.TaskStatusCompleted
		}
		if r.Owner == "" && r.Status == mcp.TaskStatusWorking {
			live = append(live, r.ID)
		}
		put(t, store, r)
	}
	h := debugpage.New(debugpage.Options{Store: store, PageSize: 7})
	id := regexp.MustCompile(`<td class="id"><a href="\?task=([^"]*)">`)
	next := regexp.MustCompile(`<a href="([^"]*)">next page</a>`)
	for _, order := range []string{"", "newest"} {
		var got []string
		for view := "?owner=&order=" + order; view != ""; {
			page := get(t, h, "/"+view, http.StatusOK)
			rows := id.FindAllStringSubmatch(page, -1)
			for _, row := range rows {
				got = append(got, row[1])
			}
			view = ""
			if m := next.FindStringSubmatch(page); m != nil {
				view = html.UnescapeString(m[1])
			}
			if len(rows) > 7 || len(rows) < 7 && view != "" {
				t.Fatalf("a page of %d tasks", len(rows))
			}
		}
		want := make([]string, len(live))
		for i, id := range live {
			if want[i] = id; order == "newest" {
				want[i] = live[len(live)-1-i]
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("order %q: -want +got\n%s", order, diff)
		}
	}
}

// BenchmarkList measures the list view with 100,000 tasks in the store.
func BenchmarkList(b *testing.B) {
	store := memory.New()
	begin := time.Now()
	for i := range 100_000 {
		r := task.Record{ID: fmt.Sprint(i), Owner: fmt.Sprint(i % 500), Status: mcp.TaskStatusWorking, Created: begin.Add(time.Duration(i) * time.Millisecond)}
		if _, err := store.Create(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	h := debugpage.New(debugpage.Options{Store: store})
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", nil))
		if w.Code != http.StatusOK {
			b.Fatal(w.Code)
		}
	}
}

// In a DNS rebinding attack, a web page makes its own host name resolve to the debug port.
func TestForeignHostNamesAreRefused(t *testing.T) {
	h := debugpage.New(debugpage.Options{Store: memory.New(), Hosts: []string{"tasks.example.com"}})
	for _, test := range []struct {
		local, host string
		want        int
	}{
		{"10.0.0.5:6060", "evil.example.com:6060", 403},
		{"10.0.0.5:6060", "TASKS.example.com:6060", 200},
		{"10.0.0.5:6060", "10.0.0.5:6060", 200},
		{"[2001:db8::1]:6060", "[2001:db8::1]:6060", 200},
		{"10.0.0.5:6060", "", 403},
		{"127.0.0.1:6060", "tasks.example.com", 200},
		{"127.0.0.1:6060", "localhost:6060", 200},
		{"127.0.0.1:6060", "evil.example.com", 403},
		{"127.0.0.1:6060", "192.0.2.1", 403},
	} {
		addr, err := net.ResolveTCPAddr("tcp", test.local)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = test.host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr))))
		if w.Code != test.want {
			t.Errorf("%q at %s: status %d, want %d", test.host, test.local, w.Code, test.want)
		}
	}
}

// scans counts the scans of a store, and the tasks that they read.
type scans struct {
	task.Store
	count, tasks int
}

func (s *scans) Scan(ctx context.Context) iter.Seq2[task.Record, error] {
	s.count++
	return func(yield func(task.Record, error) bool) {
		for r, err := range s.Store.Scan(ctx) {
			s.tasks++
			if !yield(r, err) {
				return
			}
		}
	}
}

// The views of a large store read a limited number of tasks, once for all, and nevertheless find the
// tasks of an owner and single tasks.
func TestLargeStoreIsNotScannedByEachView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const total, limit = 3000, 1200
		store := &scans{Store: memory.New()}
		for i := range total {
			owner := fmt.Sprint("owner", i%100)
			if _, err := store.Create(t.Context(), task.Record{ID: fmt.Sprintf("task-%04d", i), Owner: owner, Status: mcp.TaskStatusWorking, Created: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
		h := debugpage.New(debugpage.Options{Store: store, MaxTasks: limit})
		for range 10 {
			if list := get(t, h, "/", http.StatusOK); !strings.Contains(list, "The store has more than 1200 tasks") {
				t.Fatalf("the list does not say that it is not complete:\n%s", list)
			}
		}
		if store.count != 1 || store.tasks > limit+1 {
			t.Errorf("10 views made %d scans of %d tasks in all", store.count, store.tasks)
		}
		owned := get(t, h, "/?owner=owner7", http.StatusOK)
		if n := len(rows(t, owned, "tasks")); n != total/100 {
			t.Errorf("%d tasks of an owner, want %d", n, total/100)
		}
		for i := range total {
			if i%500 == 0 {
				get(t, h, fmt.Sprintf("/?task=task-%04d", i), http.StatusOK)
			}
		}
		time.Sleep(6 * time.Second)
		get(t, h, "/", http.StatusOK)
		if store.count != 2 {
			t.Errorf("%d scans after 6 seconds, want 2", store.count)
		}
	})
}

// A task changes only after a confirmation, in a view that does not refresh itself.
func TestChangesAreConfirmed(t *testing.T) {
	store := memory.New()
	if _, err := store.Create(t.Context(), task.Record{ID: "one", Owner: "ada", Status: mcp.TaskStatusWorking, Restartable: true, Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	h := debugpage.New(debugpage.Options{
		Store: store, TakeOver: func(context.Context, string) error { return nil },
		Cancel: func(context.Context, string) (mcp.Task, error) { return mcp.Task{}, nil },
	})
	view := get(t, h, "/?task=one", http.StatusOK)
	if strings.Contains(view, "<form") || !strings.Contains(view, "http-equiv") {
		t.Errorf("the view changes the task without confirmation:\n%s", view)
	}
	for _, change := range []string{"cancel", "takeover"} {
		link := "?task=one&amp;confirm=" + change
		if !strings.Contains(view, link) {
			t.Errorf("no link to %s:\n%s", link, view)
		}
		confirmation := get(t, h, "/"+strings.ReplaceAll(link, "&amp;", "&"), http.StatusOK)
		if strings.Count(confirmation, "<form") != 1 || !strings.Contains(confirmation, `action="?`+change+`=one"`) || strings.Contains(confirmation, "http-equiv") {
			t.Errorf("the confirmation of %s:\n%s", change, confirmation)
		}
	}
}

// The view of a task shows its undos, and the attempts of its steps, which are in a branch.
func TestViewShowsUndosAndAttempts(t *testing.T) {
	store := memory.New()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	entries := []task.Entry{
		{Kind: 5, Key: "refund", Occurrence: 1},
		{Kind: 2, Key: "ship", Occurrence: 1, Branch: "1.attempts", Failed: true},
		{Kind: 3, Key: "ship", Occurrence: 1, Branch: "1.attempts"},
		{Kind: 2, Key: "ship", Occurrence: 2, Branch: "1.attempts"},
		{Kind: taskrules.KindFailure, Occurrence: 1, Failed: true},
		{Kind: 6, Key: "refund", Occurrence: 1, Failed: true},
	}
	put(t, store, task.Record{
		ID: "a", Status: mcp.TaskStatusWorking, Created: at, Updated: at, Restartable: true,
		Durable: &task.Durable{Version: "1", Undos: 1, Undo: taskrules.UndoCancelled, UndoSince: at, Recorded: len(entries), Entries: entries},
	})
	page := get(t, debugpage.New(debugpage.Options{Store: store}), "/?task=a", http.StatusOK)
	text := strings.Join(strings.Fields(tag.ReplaceAllString(page, " ")), " ")
	for _, want := range []string{
		"undoes what it has done since 2026-01-02 03:04:05.000 UTC because the task was cancelled, undos registered: 1",
		"Branch Entry Occurrence Result Bytes refund 1 an undo was registered 0 1.attempts ship 1 a failure 0 1.attempts ship 1 a sleep 0 1.attempts ship 2 a result 0 " +
			"1 the failure that the undos follow 0 refund 1 an undo has failed 0",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
}

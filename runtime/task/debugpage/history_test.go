package debugpage_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/debugpage"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// A History holds the latest events in order. Read events and refused calls do not displace them.
func TestHistoryKeepsLatestEvents(t *testing.T) {
	history := debugpage.NewHistory(4)
	h := debugpage.New(debugpage.Options{Store: memory.New(), History: history})
	moved := func(n int) task.Event {
		return task.Event{Kind: task.EventMoved, Task: "one", To: mcp.TaskStatus(fmt.Sprint("status-", n))}
	}
	for n := range 7 {
		history.Add(moved(n))
	}
	for range 100 {
		history.Add(task.Event{Kind: task.EventRead, Task: "one"})
		history.Add(task.Event{Kind: task.EventRefused, Task: "one", Err: errors.New("not now")})
	}
	page := get(t, h, "/?task=one", http.StatusNotFound)
	var got []string
	for _, m := range regexp.MustCompile(`>(status-\d)<`).FindAllStringSubmatch(page, -1) {
		got = append(got, m[1])
	}
	if want := "status-3 status-4 status-5 status-6"; strings.Join(got, " ") != want {
		t.Errorf("history %q, want %s", got, want)
	}
	if n := strings.Count(get(t, h, "/", http.StatusOK), "not now"); n != 1 {
		t.Errorf("%d refusals, want 1 of 4/16, rounded up", n)
	}
}

// Many goroutines add events while the page is read.
func TestHistoryConcurrently(t *testing.T) {
	history := debugpage.NewHistory(64)
	h := debugpage.New(debugpage.Options{Store: memory.New(), History: history})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				history.Add(task.Event{Kind: task.EventCreated, Task: "one", To: mcp.TaskStatusWorking})
			}
		})
	}
	for range 20 {
		get(t, h, "/?task=one", http.StatusNotFound)
	}
	group.Wait()
	if n := strings.Count(get(t, h, "/?task=one", http.StatusNotFound), "<td>created<td>"); n != 64 {
		t.Errorf("%d events, want 64", n)
	}
}

package task_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// The pages list every task of the principal once, the oldest first, while other tasks are created
// and expire.
//
// Proves TASK-51, TASK-52, TASK-54, TASK-69.
func TestList(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{PageSize: 10}}, func(t *testing.T, m *task.Manager) {
		var want []string
		for i := range 25 {
			if i == 3 { // expires during the listing
				create(t, m, task.Request{Task: &mcp.TaskMetadata{TTL: new(int64(1))}, Work: returns(`{}`)})
			}
			work := returns(`{}`)
			switch i {
			case 5, 15:
				work = func(ctx context.Context, _ *task.Run) (codec.Encoder, error) { <-ctx.Done(); return nil, ctx.Err() }
			case 20:
				work = func(context.Context, *task.Run) (codec.Encoder, error) { return nil, errors.New("no") }
			}
			want = append(want, start(t, m, work).TaskID)
			if i%2 == 1 {
				create(t, m, task.Request{Principal: "bob", Work: returns(`{}`)})
			}
		}
		synctest.Wait()
		if _, err := m.Cancel(t.Context(), "alice", want[15], nil); err != nil {
			t.Fatal(err)
		}
		var all []string
		var sizes []int
		for cursor := ""; ; {
			tasks, next, err := m.List(t.Context(), "alice", cursor)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(tasks))
			for _, one := range tasks {
				all = append(all, one.TaskID)
				checkEqual(t, "listed", get(t, m, one.TaskID), one)
			}
			if next == "" {
				break
			}
			cursor = next
			start(t, m, returns(`{}`))
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		checkEqual(t, "sizes of pages", []int{10, 10, 8}, sizes)
		count := map[string]int{}
		for _, id := range all {
			count[id]++
			if count[id] > 1 {
				t.Errorf("%s is listed twice", id)
			}
		}
		for _, id := range want {
			if get(t, m, id); count[id] == 0 {
				t.Errorf("%s is not listed", id)
			}
		}
	})
}

// The last page has no cursor, even if it is full.
func TestLastPageHasNoCursor(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{PageSize: 3}}, func(t *testing.T, m *task.Manager) {
		for i := range 4 {
			tasks, next, err := m.List(t.Context(), "alice", "")
			if err != nil || len(tasks) != i || next != "" {
				t.Errorf("%d tasks: %d listed, next %q, %v", i, len(tasks), next, err)
			}
			start(t, m, returns(`{}`))
		}
		if tasks, next, err := m.List(t.Context(), "alice", ""); err != nil || len(tasks) != 3 || next == "" {
			t.Errorf("4 tasks: %d listed, next %q, %v", len(tasks), next, err)
		}
	})
}

// Malformed cursors and cursors of other principals fail.
//
// Proves TASK-62, TASK-69.
func TestCursors(t *testing.T) {
	runInBubble(t, task.Options{Limits: task.Limits{PageSize: 1}}, func(t *testing.T, m *task.Manager) {
		for range 3 {
			start(t, m, returns(`{}`))
			create(t, m, task.Request{Principal: "bob", Work: returns(`{}`)})
		}
		synctest.Wait()
		_, cursor, err := m.List(t.Context(), "alice", "")
		if err != nil {
			t.Fatal(err)
		}
		_, bobs, err := m.List(t.Context(), "bob", "")
		if err != nil {
			t.Fatal(err)
		}
		first, _, err := m.List(t.Context(), "alice", cursor)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := m.List(t.Context(), "alice", cursor)
		if err != nil {
			t.Fatal(err)
		}
		checkEqual(t, "the same cursor again", first, again)
		flipped := []byte(cursor)
		flipped[3] ^= 1
		for _, bad := range []string{"nonsense", bobs, cursor + "A", cursor[1:], string(flipped), cursor + "=", "\n" + cursor, strings.Repeat("A", 22), strings.Repeat("x", 1<<16)} {
			_, _, err := m.List(t.Context(), "alice", bad)
			checkEqual(t, fmt.Sprintf("cursor %.40q", bad), &jsonrpc.Error{Code: -32602, Message: "task: invalid cursor"}, task.WireError(err))
		}
	})
}

package task_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
)

func TestTaskTimestamps(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 60_000, time.UTC)
	for name, row := range map[string]struct {
		created, updated time.Time
		want             [2]string
	}{
		"never updated": {created, created, [2]string{"2026-01-02T03:04:05.000060Z", "2026-01-02T03:04:05.000060Z"}},
		"updated":       {created, created.Add(time.Second - 60*time.Microsecond), [2]string{"2026-01-02T03:04:05.000060Z", "2026-01-02T03:04:06.000000Z"}},
		"all digits":    {created, created.Add(987_654_999 * time.Nanosecond), [2]string{"2026-01-02T03:04:05.000060Z", "2026-01-02T03:04:05.987714Z"}},
		"another zone":  {created.In(time.FixedZone("", 3600)), created, [2]string{"2026-01-02T03:04:05.000060Z", "2026-01-02T03:04:05.000060Z"}},
	} {
		r := task.Record{ID: "1", Status: mcp.TaskStatusWorking, Created: row.created, Updated: row.updated}
		got := r.Task()
		if diff := cmp.Diff(row.want, [2]string{got.CreatedAt, got.LastUpdatedAt}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

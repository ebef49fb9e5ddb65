package task_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Exactly the moves that the specification names are legal.
//
// Proves TASK-22, TASK-23.
func TestLegalMoves(t *testing.T) {
	all := []mcp.TaskStatus{
		mcp.TaskStatusWorking, mcp.TaskStatusInputRequired, mcp.TaskStatusCompleted,
		mcp.TaskStatusFailed, mcp.TaskStatusCancelled, "", "submitted",
	}
	want := map[mcp.TaskStatus]string{
		mcp.TaskStatusWorking:       " input_required completed failed cancelled",
		mcp.TaskStatusInputRequired: " working completed failed cancelled",
	}
	for _, from := range all {
		got := ""
		for _, to := range all {
			if task.Legal(from, to) {
				got += " " + string(to)
			}
		}
		if got != want[from] {
			t.Errorf("from %s: got%s, want%s", from, got, want[from])
		}
	}
	for _, m := range task.Moves {
		if task.Terminal(mcp.TaskStatus(m[0])) {
			t.Errorf("a move leads out of the terminal status %s", m[0])
		}
	}
}

// The figure of docs/reference/tasks.md shows the moves of the table and their causes.
func TestFigureMatchesMoves(t *testing.T) {
	source, err := os.ReadFile("../../docs/figures/task.d2")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, m := range regexp.MustCompile(`(?m)^(\S+ -> \S+: .*|start -> \S+|\S+: \{style\.double-border: true\})$`).FindAllStringSubmatch(string(source), -1) {
		got = append(got, m[1])
	}
	want = append(want, "start -> working")
	for _, m := range task.Moves {
		want = append(want, m[0]+" -> "+m[1]+": "+m[2])
	}
	for _, s := range []mcp.TaskStatus{mcp.TaskStatusCompleted, mcp.TaskStatusFailed, mcp.TaskStatusCancelled} {
		if task.Terminal(s) {
			want = append(want, string(s)+": {style.double-border: true}")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

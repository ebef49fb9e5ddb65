package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// The task survives the end of the server.
func TestClientAndServer(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "jobserver")
	if text, err := exec.Command("go", "build", "-o", binary, "../jobserver").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var out strings.Builder
	err := run(t.Context(), stdio.Command{Path: binary, Args: []string{"-store", filepath.Join(dir, "jobs.db")}, Stderr: os.Stderr}, &out)
	if err != nil {
		t.Error(err)
	}
	want := `^task (\w+) is working
(frame \d+
)+the server has ended; starting it again
(task \w+ is working
)?task \w+ is completed
20 frames are ready
$`
	if !regexp.MustCompile(want).MatchString(out.String()) {
		t.Errorf("got\n%s", out.String())
	}
}

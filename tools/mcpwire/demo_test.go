package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The demo shows steps, progress, the kill of the server, an input request, and one result, which
// comes from the second server process, with the scenes that the first one has rendered. Over HTTP, it
// also cuts the network before it kills the server. The drawing is well-formed and shows the same.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "mcpwire")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, test := range []struct {
		name     string
		flags    []string
		line     string // an additional line of the output
		faults   []string
		sessions int
	}{
		{"stdio", nil, "waiting for task", []string{"kill -9"}, 2},
		{"http", []string{"-http"}, "the network was cut", []string{"network cut", "kill -9"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			drawing := filepath.Join(dir, test.name+".svg")
			args := append([]string{"demo", "-svg", drawing}, test.flags...)
			text, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
			out := string(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for _, want := range []string{"is working", test.line, "the server was killed", "the server was started again",
				"the task asks: Which quality?", "\nresult: 40 frames in high quality", "\nstep \"scene 4\" was done"} {
				if strings.Count(out, want) != 1 {
					t.Errorf("want %q exactly once in the output:\n%s", want, out)
				}
			}
			shares := regexp.MustCompile(`\nresult: .* \(process (\d+): scenes 1, 2(?:, 3)?; process (\d+): scenes (?:3, )?4\)\n`).FindStringSubmatch(out)
			if shares == nil || shares[1] == shares[2] {
				t.Errorf("the result does not name two processes, one for scene 1 and one for scene 4:\n%s", out)
			}
			for _, scene := range []string{"scene 1", "scene 2", "scene 3", "scene 4"} {
				if strings.Count(out, "\nstep \""+scene+"\" was done") > 1 {
					t.Errorf("%s was rendered again:\n%s", scene, out)
				}
			}
			wire := append([]string{"tools/call: render, as a task", "elicitation/create: Which quality?",
				"result of tasks/result: 40 frames in high quality"}, test.faults...)
			for _, want := range wire {
				if strings.Count(out, want) != 1 {
					t.Errorf("want %q exactly once in the list:\n%s", want, out)
				}
			}
			rounds := 0
			if test.name == "stdio" {
				rounds = 1
			}
			for _, want := range []string{"the first round asks: Which format?", "\nresult: exported as mp4", "result of tools/call: input required"} {
				if strings.Count(out, want) != rounds {
					t.Errorf("want %q %d times in the output:\n%s", want, rounds, out)
				}
			}
			if !strings.Contains(out, "notifications/progress") {
				t.Errorf("the list lacks progress:\n%s", out)
			}
			if got := strings.Count(out, "result of initialize"); got != test.sessions {
				t.Errorf("%d sessions were opened, not %d:\n%s", got, test.sessions, out)
			}
			last := 0
			for _, fault := range test.faults {
				at := strings.Index(out, fault)
				if at < last {
					t.Errorf("%q is out of order:\n%s", fault, out)
				}
				last = at
			}
			checkDrawing(t, drawing, append(wire, "notifications/progress", "notifications/message: step &#34;scene 4&#34; was done")...)
		})
	}
}

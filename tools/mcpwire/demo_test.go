package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The demo is played to its end: with progress, a question, a kill, and a result that came from the
// server's second life; the picture is well-formed and shows all of it.
func TestDemo(t *testing.T) {
	dir := t.TempDir()
	binary, picture := filepath.Join(dir, "mcpwire"), filepath.Join(dir, "demo.svg")
	if text, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	out, err := exec.Command(binary, "demo", "-svg", picture).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	svg, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"is working", "the server was killed", "the task asks: Which quality?", "result: 40 frames in high quality"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the story lacks %q:\n%s", want, out)
		}
	}
	for _, want := range []string{"tools/call: render, as a task", "notifications/progress", "kill -9", "elicitation/create: Which quality?", "result of tasks/result: 40 frames in high quality"} {
		if !strings.Contains(string(out), want) || !strings.Contains(string(svg), want) {
			t.Errorf("list or picture lacks %q:\n%s", want, out)
		}
	}
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture: %v", err)
		}
	}
}

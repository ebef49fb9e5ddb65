package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) == 2 && args[0] == childFlag {
		if err := child(context.Background(), args[1], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestFleetIsMeasured(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"-nodes", "3", "-processes", "2", "-profile", dir},
		{"-nodes", "1", "-processes", "1,2", "-inside"},
	} {
		var out strings.Builder
		if err := run(t.Context(), append(args, "-callers", "3", "-rounds", "1", "-time", "50ms"), nil, &out); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if want := 2 + strings.Count(args[3], ",") + 1; len(lines) != want {
			t.Errorf("printed %d lines, want %d:\n%s", len(lines), want, &out)
		}
		for _, line := range lines[2:] {
			cells := strings.Split(line, "|")
			if stored := strings.TrimSpace(cells[11]); len(cells) != 16 || strings.HasPrefix(stored, "0") {
				t.Errorf("printed %s", line)
			}
		}
	}
	for _, name := range []string{"process-0", "process-1", "node-0", "node-1", "node-2"} {
		if info, err := os.Stat(filepath.Join(dir, name+".pprof")); err != nil || info.Size() == 0 {
			t.Errorf("profile %s: %v", name, err)
		}
	}
}

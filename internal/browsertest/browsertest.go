// Package browsertest runs Chromium for tests.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Program is the path of the Chromium executable.
type Program string

// Find returns the browser. It skips the test in short form, and if there is no browser.
func Find(t *testing.T) Program {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds to start")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return Program(path)
		}
	}
	t.Skip("chromium is not installed")
	return ""
}

// Run runs the browser headless, with a profile of its own, for at most three minutes. It returns
// what the browser prints and what it logs.
func (p Program) Run(t *testing.T, args ...string) (out, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	common := []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--user-data-dir=" + t.TempDir()}
	cmd := exec.CommandContext(ctx, string(p), append(common, args...)...)
	var printed, logged strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &printed, &logged, 10*time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, logged.String())
	}
	return printed.String(), logged.String()
}

// Open opens a page in a window of a size such as "700,500". It returns the document and the path of
// a screenshot with the given name, in the folder that MCPWIRE_SCREENSHOTS names, or in one that the
// test removes.
func (p Program) Open(t *testing.T, url, size, name string) (document, screenshot string) {
	t.Helper()
	folder := os.Getenv("MCPWIRE_SCREENSHOTS")
	if folder == "" {
		folder = t.TempDir()
	}
	screenshot = filepath.Join(folder, name)
	document, _ = p.Run(t, "--window-size="+size, "--screenshot="+screenshot, "--dump-dom", url)
	return document, screenshot
}

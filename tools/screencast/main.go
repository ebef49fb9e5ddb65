// Command screencast draws docs/figures/demo-terminal.svg, an animation of a terminal in which the
// demo runs, from the recording demo.cast. go generate runs it in the root of the module. To record
// the demo again before that:
//
//	go run ./tools/screencast -record
//
// The recording is an asciicast of version 2, which asciinema can play. It ends before the demo lists
// its messages.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	recordingFile = "tools/screencast/demo.cast"
	drawingFile   = "docs/figures/demo-terminal.svg"
)

func main() {
	again := flag.Bool("record", false, "record the demo again")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *again)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "screencast:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, again bool) error {
	if again {
		c, err := recordDemo(ctx)
		if err != nil {
			return err
		}
		if err := os.WriteFile(recordingFile, c.encode(), 0o644); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(recordingFile)
	if err != nil {
		return err
	}
	c, err := decode(strings.NewReader(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", recordingFile, err)
	}
	return os.WriteFile(drawingFile, draw(c), 0o644)
}

// A cast is a recorded run of a command.
type cast struct {
	command string
	lines   []line
}

// A line is a line of the command's output.
type line struct {
	at   time.Duration // since the start of the command
	text string
}

// recordDemo runs the demo and returns its output up to the first empty line.
func recordDemo(ctx context.Context) (*cast, error) {
	dir, err := os.MkdirTemp("", "screencast")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "mcpwire")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./tools/mcpwire")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, err
	}
	demo := exec.CommandContext(ctx, program, "demo")
	demo.Stderr = os.Stderr
	output, err := demo.StdoutPipe()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := demo.Start(); err != nil {
		return nil, err
	}
	c := &cast{command: "mcpwire demo"}
	s := bufio.NewScanner(output)
	for s.Scan() && s.Text() != "" {
		c.lines = append(c.lines, line{time.Since(start), s.Text()})
	}
	_, err = io.Copy(io.Discard, output)
	return c, errors.Join(s.Err(), err, demo.Wait())
}

// header is the first line of a recording.
type header struct {
	Version int    `json:"version"`
	Width   int    `json:"width"`
	Height  int    `json:"height"`
	Command string `json:"command"`
}

// encode returns the recording of c.
func (c *cast) encode() []byte {
	var out strings.Builder
	encoder := json.NewEncoder(&out) // neither the header nor an event fails
	encoder.SetEscapeHTML(false)
	encoder.Encode(header{2, c.width(), len(c.lines), c.command})
	for _, l := range c.lines {
		encoder.Encode([]any{l.at.Truncate(time.Millisecond).Seconds(), "o", l.text + "\r\n"})
	}
	return []byte(out.String())
}

// width returns the length of the longest line.
func (c *cast) width() int {
	width := utf8.RuneCountInString(c.command) + len("$ ")
	for _, l := range c.lines {
		width = max(width, utf8.RuneCountInString(l.text))
	}
	return width
}

// decode reads a recording in which each event is the output of one line.
func decode(r io.Reader) (*cast, error) {
	d := json.NewDecoder(r)
	var h header
	if err := d.Decode(&h); err != nil {
		return nil, err
	}
	if h.Version != 2 {
		return nil, fmt.Errorf("version %d: want 2", h.Version)
	}
	c := &cast{command: h.Command}
	for d.More() {
		var seconds float64
		var kind, text string
		if err := d.Decode(&[]any{&seconds, &kind, &text}); err != nil {
			return nil, err
		}
		text, ok := strings.CutSuffix(text, "\r\n")
		at := time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
		if !ok || kind != "o" || strings.ContainsAny(text, "\r\n\x1b") || len(c.lines) > 0 && at < c.lines[len(c.lines)-1].at {
			return nil, fmt.Errorf("event %d: want the output of one line, not before the previous one", len(c.lines)+1)
		}
		c.lines = append(c.lines, line{at, text})
	}
	return c, nil
}

// Package console is the interface of a command to a person at a terminal or to a script: output
// lines, a progress bar on a terminal, and questions that lines of standard input answer.
package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/schollz/progressbar/v3"

	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

// Console writes output, shows progress and asks questions. It is safe for concurrent use.
type Console struct {
	terminal bool
	source   io.Reader
	in       *bufio.Reader // of source
	forms    sync.Mutex    // held during an input request: one form at a time

	mu      sync.Mutex
	out     io.Writer
	bar     *progressbar.ProgressBar // nil unless it is drawn
	shown   int                      // without a terminal: the last quarter of the work that was reported
	asked   []*question              // pending questions, the newest last; it gets the next line
	early   []string                 // without a terminal: lines that were read while no question was pending
	reading bool                     // a goroutine reads lines until no question is pending
	ended   bool                     // the input has ended
}

// question waits for a line.
type question struct {
	prompt string
	answer chan string // buffered; closed if the input ends before the answer
	aside  bool        // hidden: the question is not shown and gets no line
	secret bool        // the answer is not written to the output
}

// New returns a console that reads lines from in and writes to out. It detects whether out is a
// terminal.
func New(in io.Reader, out io.Writer) *Console {
	return &Console{terminal: printable.IsTerminal(out), source: in, in: bufio.NewReader(in), out: printable.Raw(out)}
}

// HasInput reports whether there may be lines to read. It returns false for an empty input, which
// is common in scripts: an empty file, or the null device. It reads nothing, because the input may
// belong to the script that runs the command, such as the list of a loop.
func (c *Console) HasInput() bool {
	f, ok := c.source.(*os.File)
	if !ok {
		sized, ok := c.source.(interface{ Len() int })
		return !ok || sized.Len() > 0
	}
	info, err := f.Stat()
	if err != nil {
		return false // closed
	}
	if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(info, null) {
		return false
	}
	if info.Mode().IsRegular() {
		at, err := f.Seek(0, io.SeekCurrent)
		return err != nil || at < info.Size()
	}
	return true
}

// Terminal reports whether the output is a terminal.
func (c *Console) Terminal() bool { return c.terminal }

// Line writes a line. It removes line breaks and escapes control characters in each argument that
// is a string, an error or a Stringer, so that text from a server cannot start a new line.
func (c *Console) Line(format string, args ...any) {
	args = printable.Args(args)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	if c.newest() != nil && c.terminal {
		fmt.Fprintln(c.out)
	}
	fmt.Fprintf(c.out, format+"\n", args...)
	c.prompt()
}

// Prefix begins each line of text from another program. It distinguishes such lines from those of
// this program.
const Prefix = "  | "

// Quote writes text from another program, with a prefix on each line. It truncates the text after
// maxQuoted characters or maxLines lines.
func (c *Console) Quote(text string) {
	if runes := []rune(text); len(runes) > maxQuoted {
		text = string(runes[:maxQuoted]) + " …"
	}
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > maxLines {
			c.Line(Prefix + "…")
			return
		}
		c.Line(Prefix+"%s", strings.TrimRight(line, "\r\n"))
	}
}

// The limits of Quote, in characters and in lines.
const (
	maxQuoted = 4000
	maxLines  = 40
)

// Write writes whole lines. It makes a Console usable as the output of a process.
func (c *Console) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		c.Line(Prefix+"%s", strings.TrimRight(line, "\r\n"))
	}
	return len(text), nil
}

// steps is the resolution of the bar.
const steps = 1000

// Progress shows the progress of an operation, as a bar or, without a terminal, by a line for each
// quarter. It draws no bar while a question is pending.
func (c *Console) Progress(p session.Progress) {
	p.Message = printable.Line(p.Message)
	c.mu.Lock()
	defer c.mu.Unlock()
	known := p.Total != nil && *p.Total > 0
	share := 0.0
	if known {
		share = min(max(p.Value / *p.Total, 0), 1)
	}
	switch {
	case !c.terminal && !known:
		fmt.Fprintf(c.out, "%v %s\n", p.Value, p.Message)
	case !c.terminal:
		if quarter := int(4 * share); quarter > c.shown {
			c.shown = quarter
			fmt.Fprintf(c.out, "%3.0f %% %s\n", 100*share, p.Message)
		}
	case c.newest() == nil:
		c.draw(known, share, p.Message)
	}
}

// draw updates the bar. It must be called with mu held.
func (c *Console) draw(known bool, share float64, message string) {
	if c.bar == nil {
		most := int64(-1) // shows a spinner
		if known {
			most = steps
		}
		c.bar = progressbar.NewOptions64(most, progressbar.OptionSetWriter(c.out), progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false), progressbar.OptionSpinnerType(14),
			progressbar.OptionSetSpinnerChangeInterval(0)) // otherwise it would redraw itself over prompts
	}
	c.bar.Describe(message)
	if known {
		c.bar.Set64(min(int64(share*steps), steps-1)) // the last step would finish the bar
	} else {
		c.bar.Add(1)
	}
}

// clear removes the bar. It must be called with mu held.
func (c *Console) clear() {
	if c.bar != nil {
		c.bar.Clear()
		c.bar = nil
	}
}

// Finish removes the bar after the end of an operation.
func (c *Console) Finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	c.shown = 0
}

// prompt shows the newest question. It must be called with mu held.
func (c *Console) prompt() {
	if q := c.newest(); q != nil {
		c.clear()
		fmt.Fprint(c.out, q.prompt)
	}
}

// newest returns the question that gets the next line, or nil. It must be called with mu held.
func (c *Console) newest() *question {
	for _, q := range slices.Backward(c.asked) {
		if !q.aside {
			return q
		}
	}
	return nil
}

// SetAside hides all pending questions. They are neither shown nor answered until back is called.
func (c *Console) SetAside() (back func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.newest() != nil && c.terminal {
		fmt.Fprintln(c.out)
	}
	list := slices.Clone(c.asked)
	for _, q := range list {
		q.aside = true
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, q := range list {
			q.aside = false
		}
		c.prompt()
	}
}

// Ask asks a question and returns the line that answers it. The newest of several questions is
// answered first. Ask fails with [io.EOF] if the input ends, and with the cause of ctx if ctx ends.
// In the latter case the pending read continues in the background. Without a terminal, its line
// answers the next question. At a terminal, the user has typed it for the question that was
// withdrawn, and it must not answer one that the user has not seen: it is ignored.
func (c *Console) Ask(ctx context.Context, prompt string) (string, error) {
	return c.ask(ctx, &question{prompt: printable.Text(prompt), answer: make(chan string, 1)})
}

// AskSecret is Ask for an answer that the console does not write to its output, which may be a log.
// A terminal still echoes what the user types.
func (c *Console) AskSecret(ctx context.Context, prompt string) (string, error) {
	return c.ask(ctx, &question{prompt: printable.Text(prompt), answer: make(chan string, 1), secret: true})
}

func (c *Console) ask(ctx context.Context, q *question) (string, error) {
	c.mu.Lock()
	switch {
	case len(c.early) > 0:
		line := c.early[0]
		c.early = c.early[1:]
		c.mu.Unlock()
		return line, nil
	case c.ended:
		c.mu.Unlock()
		return "", io.EOF
	}
	if c.newest() != nil && c.terminal {
		fmt.Fprintln(c.out)
	}
	c.asked = append(c.asked, q)
	c.prompt()
	if !c.reading {
		c.reading = true
		go c.read() // ends when no question is pending
	}
	c.mu.Unlock()
	select {
	case line, ok := <-q.answer:
		if !ok {
			return "", io.EOF
		}
		return line, nil
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.newest() == q && c.terminal {
			fmt.Fprintln(c.out)
		}
		c.asked = slices.DeleteFunc(c.asked, func(x *question) bool { return x == q })
		return "", context.Cause(ctx)
	}
}

// read passes lines to the newest question, until no question is pending.
func (c *Console) read() {
	for c.readLine() {
	}
}

// readLine reads one line and reports whether to read another one.
func (c *Console) readLine() bool {
	line, err := c.in.ReadString('\n')
	c.mu.Lock()
	defer c.mu.Unlock()
	if line != "" {
		line = strings.TrimRight(line, "\r\n")
		if q := c.newest(); q != nil {
			switch {
			case c.terminal: // echoes the input itself
			case q.secret:
				fmt.Fprintln(c.out)
			default:
				fmt.Fprintln(c.out, printable.Line(line))
			}
			q.answer <- line
			c.asked = slices.DeleteFunc(c.asked, func(x *question) bool { return x == q })
			c.prompt()
		} else if c.terminal {
			c.clear()
			fmt.Fprintln(c.out, "the line is ignored, because its question was withdrawn")
		} else {
			c.early = append(c.early, line)
		}
	}
	if err != nil {
		if c.newest() != nil && c.terminal {
			fmt.Fprintln(c.out)
		}
		c.ended = true
		for _, q := range c.asked {
			close(q.answer)
		}
		c.asked = nil
	}
	c.reading = len(c.asked) > 0
	return c.reading
}

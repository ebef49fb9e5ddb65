// Package console is how a command talks with a person, or with a script in the person's place: lines,
// a progress bar where there is a terminal to draw it on, and questions that are answered by lines of
// standard input.
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
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

// Console is one such place. It may be used by many goroutines.
type Console struct {
	terminal bool
	typed    bool // the input is a terminal
	in       *bufio.Reader
	looked   chan struct{} // closed when the read that HasInput started has ended; nil if HasInput was not called
	forms    sync.Mutex    // held during an input request: one form at a time

	mu      sync.Mutex
	out     io.Writer
	bar     *progressbar.ProgressBar // nil unless it is drawn
	shown   int                      // without a terminal: quarters of the work that were told
	asked   []*question              // the newest last: it gets the next line
	early   []string                 // lines that came when nobody asked any more
	reading bool                     // a goroutine is, until nobody asks
	ended   bool                     // there are no more lines
}

// question waits for a line.
type question struct {
	prompt string
	answer chan string // holds one; closed if there will be none
	aside  bool        // it is not shown, and gets no line
}

// New returns a console that reads lines from in and writes to out, which is taken for a terminal if
// it is one.
func New(in io.Reader, out io.Writer) *Console {
	f, _ := in.(*os.File)
	return &Console{
		terminal: printable.IsTerminal(out), typed: f != nil && printable.IsTerminal(f), in: bufio.NewReader(in), out: printable.Raw(out),
	}
}

// inputPatience is how long HasInput waits for a pipe.
const inputPatience = 100 * time.Millisecond

// HasInput reports whether there may be lines to read. It returns false if the input is already at
// its end, as is common for a command in a script. It must be called before any other method.
func (c *Console) HasInput() bool {
	if c.typed {
		return true
	}
	c.looked = make(chan struct{})
	var err error
	go func() { // ends with the first byte of input or its end
		defer close(c.looked)
		_, err = c.in.Peek(1)
	}()
	timer := time.NewTimer(inputPatience)
	defer timer.Stop()
	select {
	case <-c.looked:
		return err == nil
	case <-timer.C:
		return true
	}
}

// Terminal reports whether somebody looks at the console.
func (c *Console) Terminal() bool { return c.terminal }

// Line writes a line. It removes line breaks and escapes control characters in each argument that is
// a string, an error or a Stringer, so that text from a server cannot start a line of its own.
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

// quote is the prefix of each line of text from another program, so that the user can tell it from
// lines of this program.
const quote = "  | "

// Quote writes text from another program, each line with a prefix. It cuts a text of more than
// maxQuoted characters or maxLines lines.
func (c *Console) Quote(text string) {
	if runes := []rune(text); len(runes) > maxQuoted {
		text = string(runes[:maxQuoted]) + " …"
	}
	n := 0
	for line := range strings.Lines(text) {
		if n++; n > maxLines {
			c.Line(quote + "…")
			return
		}
		c.Line(quote+"%s", strings.TrimRight(line, "\r\n"))
	}
}

// The most that Quote writes, in characters and in lines.
const (
	maxQuoted = 4000
	maxLines  = 40
)

// Write writes whole lines, so that a console can be what a process writes to.
func (c *Console) Write(text []byte) (int, error) {
	for line := range strings.Lines(string(text)) {
		c.Line(quote+"%s", strings.TrimRight(line, "\r\n"))
	}
	return len(text), nil
}

// steps is how fine the bar is.
const steps = 1000

// Progress shows how far some work is: as a bar that moves, or, without a terminal, by a line for each
// quarter. It draws nothing while somebody is asked.
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

// draw moves the bar. It is called with mu held.
func (c *Console) draw(known bool, share float64, message string) {
	if c.bar == nil {
		most := int64(-1) // a spinner
		if known {
			most = steps
		}
		c.bar = progressbar.NewOptions64(most, progressbar.OptionSetWriter(c.out), progressbar.OptionSetWidth(30),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false), progressbar.OptionSpinnerType(14),
			progressbar.OptionSetSpinnerChangeInterval(0)) // or it would write on its own, over prompts
	}
	c.bar.Describe(message)
	if known {
		c.bar.Set64(min(int64(share*steps), steps-1)) // the last step would end it
	} else {
		c.bar.Add(1)
	}
}

// clear takes the bar away. It is called with mu held.
func (c *Console) clear() {
	if c.bar != nil {
		c.bar.Clear()
		c.bar = nil
	}
}

// Finish takes the bar away: the work is over.
func (c *Console) Finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	c.shown = 0
}

// prompt shows the newest question. It is called with mu held.
func (c *Console) prompt() {
	if q := c.newest(); q != nil {
		c.clear()
		fmt.Fprint(c.out, q.prompt)
	}
}

// newest returns the question that gets the next line, or nil. It is called with mu held.
func (c *Console) newest() *question {
	for _, q := range slices.Backward(c.asked) {
		if !q.aside {
			return q
		}
	}
	return nil
}

// SetAside puts the questions aside that are being asked: they are neither shown nor answered until back is called.
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

// Ask asks a question and returns the line that answers it. A question that is asked meanwhile comes
// first. It fails with [io.EOF] if there are no more lines, and with the cause of ctx if that ends
// first; a read that is under way then goes on in the background, and its line serves the next question.
func (c *Console) Ask(ctx context.Context, prompt string) (string, error) {
	q := &question{prompt: printable.Text(prompt), answer: make(chan string, 1)}
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
		go c.read() // ends when nobody asks any more
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

// read gives lines to the newest question, as long as there is one.
func (c *Console) read() {
	if c.looked != nil {
		<-c.looked
	}
	for c.readLine() {
	}
}

// readLine reads one line, and reports whether another one is wanted.
func (c *Console) readLine() bool {
	line, err := c.in.ReadString('\n')
	c.mu.Lock()
	defer c.mu.Unlock()
	if line != "" {
		line = strings.TrimRight(line, "\r\n")
		if q := c.newest(); q != nil {
			if !c.terminal { // which shows what is typed
				fmt.Fprintln(c.out, printable.Line(line))
			}
			q.answer <- line
			c.asked = slices.DeleteFunc(c.asked, func(x *question) bool { return x == q })
			c.prompt()
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

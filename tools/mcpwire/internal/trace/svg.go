package trace

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

// The measures of the diagram, in pixels.
const (
	width   = 860
	left    = 130 // where the client's line is
	right   = 730 // and the server's
	top     = 90  // in front of the first row
	spacing = 34
	lane    = 110 // between the states of one task and those of another under way
)

// Draw writes the conversation as a sequence diagram, as SVG: the client's and the server's line,
// an arrow for each message, and from the server's line to the right the states of each task.
func (r *Recording) Draw(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	height := top + spacing*len(r.rows) + 30
	bars, lanes := r.bars()
	width := width + lane*max(0, lanes-1)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<rect width="100%%" height="100%%" fill="#fff"/>
`, width, height, width, height)
	for _, side := range []struct {
		name string
		x    int
	}{{cmp.Or(r.name[mcp.FromClient], "client"), left}, {cmp.Or(r.name[mcp.FromServer], "server"), right}} {
		fmt.Fprintf(&b, `<line x1="%d" y1="50" x2="%d" y2="%d" stroke="#999"/>
<rect x="%d" y="20" width="200" height="30" rx="4" fill="#eef2f7" stroke="#667"/><text x="%d" y="40" text-anchor="middle" font-weight="bold">%s</text>
`, side.x, side.x, height-15, side.x-100, side.x, escape(shorten(side.name, 28)))
	}
	for _, bar := range bars {
		bar.draw(&b)
	}
	for i := range r.rows {
		r.rows[i].draw(&b, top+spacing*i)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// bar is one state of one task: from the row that tells it to that which tells the next.
type bar struct {
	task     string
	status   mcp.TaskStatus
	lane     int // counted from the server's line
	from, to int // rows
	first    bool
}

// bars returns the states of all tasks and how many lanes they need. The lane of a task that has ended is free for
// another.
func (r *Recording) bars() (list []bar, lanes int) {
	current := map[string]int{} // the last bar of each task
	var taken []bool
	for i := range r.rows {
		next := &r.rows[i]
		if next.status == "" {
			continue
		}
		b := bar{task: next.task, status: next.status, from: i, to: len(r.rows)}
		if n, ok := current[next.task]; ok {
			last := &list[n]
			if last.status == next.status || ended(last.status) {
				continue
			}
			last.to, b.lane = i, last.lane
		} else {
			if b.first, b.lane = true, slices.Index(taken, false); b.lane < 0 {
				b.lane, taken = len(taken), append(taken, true)
			}
		}
		if taken[b.lane] = !ended(b.status); !taken[b.lane] {
			b.to = i + 1
		}
		current[next.task], list = len(list), append(list, b)
	}
	return list, len(taken)
}

// ended reports whether no other status follows.
func ended(s mcp.TaskStatus) bool {
	return s == mcp.TaskStatusCompleted || s == mcp.TaskStatusFailed || s == mcp.TaskStatusCancelled
}

// draw draws a bar with its status, and the task's id where it begins.
func (s bar) draw(b *strings.Builder) {
	colour := "#bbb"
	switch s.status {
	case mcp.TaskStatusWorking:
		colour = "#f2b84b"
	case mcp.TaskStatusInputRequired:
		colour = "#a77bd6"
	case mcp.TaskStatusCompleted:
		colour = "#5fb87a"
	case mcp.TaskStatusFailed:
		colour = "#d9605b"
	}
	x, y := right+lane*s.lane, top+spacing*s.from
	fmt.Fprintf(b, `<g><title>task %s: %s</title><rect x="%d" y="%d" width="12" height="%d" fill="%s"/><text x="%d" y="%d" fill="#444">%s</text>`,
		escape(s.task), escape(string(s.status)), x-6, y, spacing*(s.to-s.from), colour, x+14, y+4, escape(shorten(string(s.status), 14)))
	if s.first {
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="#888" font-size="10">%s</text>`, x+14, y+17, escape(shorten(s.task, 14)))
	}
	b.WriteString("</g>\n")
}

// draw draws a row.
func (r *row) draw(b *strings.Builder, y int) {
	label := escape(shorten(r.label(), 80))
	fmt.Fprintf(b, `<text x="10" y="%d" fill="#888" font-size="11">%.3f s</text>`+"\n", y+4, r.at.Seconds())
	if r.from == 0 {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="20" fill="#eef2f7"/><text x="%d" y="%d" text-anchor="middle" fill="#445" font-weight="bold">%s</text>`+"\n",
			left, y-12, right-left, (left+right)/2, y+3, label)
		return
	}
	x1, x2 := left, right-7
	if r.from == mcp.FromServer {
		x1, x2 = right-7, left
	}
	colour, dash := "#1f6fb2", ""
	switch r.kind {
	case jsonrpc.KindResponse:
		colour, dash = "#2b7a47", ` stroke-dasharray="6 3"`
	case jsonrpc.KindErrorResponse:
		colour, dash = "#b3261e", ` stroke-dasharray="6 3"`
	case jsonrpc.KindNotification:
		colour = "#888"
	case jsonrpc.KindInvalid:
		colour = "#b3261e"
	}
	back := 9 // from the tip to where its sides end
	if x2 > x1 {
		back = -back
	}
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s"%s/><path d="M%d %dl%d -4v8z" fill="%s"/><text x="%d" y="%d" text-anchor="middle" fill="%s">%s</text>`+"\n",
		x1, y, x2, y, colour, dash, x2, y, back, colour, (left+right)/2, y-5, colour, label)
}

// shorten makes a text fit into a number of characters.
func shorten(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// escape makes a text fit to stand in XML, where some characters cannot be at all.
func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(oneLine(s))) // a Builder does not fail
	return b.String()
}

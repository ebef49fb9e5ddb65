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
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

// The dimensions of the diagram, in pixels.
const (
	left    = 130 // position of the first client's line
	across  = 600 // from the line of the last client to the server's
	beside  = 110 // from the line of one client to that of another at the same time
	top     = 90  // above the first row
	spacing = 34
	margin  = 130 // right of the server's line
	lane    = 110 // between the states of one task and those of another under way
)

// Draw writes the messages as a sequence diagram in SVG: a line for each client and one for the
// server, an arrow for each message, and the states of each task to the right of the server's line.
// A client's line extends from its first to its last message. Clients have numbers if there are
// several.
func (r *Recording) Draw(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	clients, columns := r.lines()
	bars, lanes := r.bars()
	p := plan{several: len(clients) > 1, last: left + beside*max(0, columns-1)}
	p.right = p.last + across
	y := top - spacing
	for i := range r.rows {
		y += spacing
		if c := clients[r.rows[i].session]; c != nil && c.from == i && i > 0 {
			y += spacing // for its name
		}
		p.y = append(p.y, y)
	}
	width, height := p.right+margin+lane*max(0, lanes-1), y+spacing+30
	p.end = y + spacing
	fmt.Fprintf(&p, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<rect width="100%%" height="100%%" fill="#fff"/>
`, width, height, width, height)
	p.line(p.right, 50, p.end)
	p.box(p.right, 35, 200, cmp.Or(r.server, "server"))
	for _, c := range r.sessions {
		p.client(c, clients[c])
	}
	if len(clients) == 0 {
		p.line(left, 50, p.end)
		p.box(left, 35, 200, "client")
	}
	for _, bar := range bars {
		p.bar(bar)
	}
	for i := range r.rows {
		x := left
		if c := clients[r.rows[i].session]; c != nil {
			x = c.x()
		}
		p.row(&r.rows[i], x, p.y[i])
	}
	p.WriteString("</svg>\n")
	_, err := io.WriteString(w, p.String())
	return err
}

// plan is a diagram that is being drawn, with the positions of its parts.
type plan struct {
	strings.Builder
	several     bool  // there are several clients
	last, right int   // positions of the lines of the last client and of the server
	y           []int // position of each row
	end         int   // end of the lines
}

// line is the position of a client's line: its column, and its first and last row.
type line struct{ column, from, to int }

func (l *line) x() int { return left + beside*l.column }

// lines returns the lines of all clients and the number of columns. The column of a client can be
// reused after its last message.
func (r *Recording) lines() (lines map[*conversation]*line, columns int) {
	lines = map[*conversation]*line{}
	for i := range r.rows {
		c := r.rows[i].session
		if c == nil {
			continue
		}
		if lines[c] == nil {
			lines[c] = &line{from: i}
		}
		lines[c].to = i
	}
	var ends []int // the last row of the client in each column
	for _, c := range r.sessions {
		l := lines[c]
		if l.column = slices.IndexFunc(ends, func(end int) bool { return end < l.from }); l.column < 0 {
			l.column, ends = len(ends), append(ends, 0)
		}
		ends[l.column] = l.to
	}
	return lines, len(ends)
}

// client draws the line of a client, with its name at the top.
func (p *plan) client(c *conversation, l *line) {
	if !p.several {
		p.line(left, 50, p.end)
		p.box(left, 35, 200, cmp.Or(c.client, "client"))
		return
	}
	y := 35
	if l.from > 0 {
		y = p.y[l.from] - spacing
	}
	p.line(l.x(), y+15, p.y[l.to]+15)
	fmt.Fprintf(p, `<path d="M%d %dh12" stroke="#999"/>`, l.x()-6, p.y[l.to]+15)
	p.box(l.x(), y, beside-8, fmt.Sprintf("%d %s", c.number, cmp.Or(c.client, "client")))
}

func (p *plan) line(x, from, to int) {
	fmt.Fprintf(p, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#999"/>`+"\n", x, from, x, to)
}

// box draws a name around a point.
func (p *plan) box(x, y, width int, name string) {
	fmt.Fprintf(p, `<rect x="%d" y="%d" width="%d" height="30" rx="4" fill="#eef2f7" stroke="#667"/><text x="%d" y="%d" text-anchor="middle" font-weight="bold">%s</text>`+"\n",
		x-width/2, y-15, width, x, y+5, escape(shorten(name, width/7)))
}

// bar is one state of a task, from the row that reports it to the row that reports the next one.
type bar struct {
	task     string
	status   mcp.TaskStatus
	lane     int // counted from the server's line
	from, to int // rows
	first    bool
}

// bars returns the states of all tasks and the number of lanes. The lane of a task can be reused
// after its last state.
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

// ended reports whether the status is terminal.
func ended(s mcp.TaskStatus) bool {
	return s == mcp.TaskStatusCompleted || s == mcp.TaskStatusFailed || s == mcp.TaskStatusCancelled
}

// bar draws a bar with its status, and with the task's id at the top.
func (p *plan) bar(s bar) {
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
	x, y, end := p.right+lane*s.lane, p.y[s.from], p.end
	switch {
	case ended(s.status):
		end = y + spacing
	case s.to < len(p.y):
		end = p.y[s.to]
	}
	fmt.Fprintf(p, `<g><title>task %s: %s</title><rect x="%d" y="%d" width="12" height="%d" fill="%s"/><text x="%d" y="%d" fill="#444">%s</text>`,
		escape(s.task), escape(string(s.status)), x-6, y, end-y, colour, x+14, y+4, escape(shorten(string(s.status), 14)))
	if s.first {
		fmt.Fprintf(p, `<text x="%d" y="%d" fill="#888" font-size="10">%s</text>`, x+14, y+17, escape(shorten(s.task, 14)))
	}
	p.WriteString("</g>\n")
}

// row draws a row of a client whose line is at x.
func (p *plan) row(r *row, x, y int) {
	label := escape(shorten(r.label(), 80))
	fmt.Fprintf(p, `<text x="10" y="%d" fill="#888" font-size="11">%.3f s</text>`+"\n", y+4, r.at.Seconds())
	if r.from == 0 {
		fmt.Fprintf(p, `<rect x="%d" y="%d" width="%d" height="20" fill="#eef2f7"/><text x="%d" y="%d" text-anchor="middle" fill="#445" font-weight="bold">%s</text>`+"\n",
			x, y-12, p.right-7-x, (p.last+p.right)/2, y+3, label)
		return
	}
	x1, x2 := x, p.right-7
	if p.several {
		x1 += 8 // leave room for the number
	}
	if r.from == mcp.FromServer {
		x1, x2 = x2, x1
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
	back := 9 // length of the arrow head
	if x2 > x1 {
		back = -back
	}
	fmt.Fprintf(p, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s"%s/><path d="M%d %dl%d -4v8z" fill="%s"/><text x="%d" y="%d" text-anchor="middle" fill="%s">%s</text>`+"\n",
		x1, y, x2, y, colour, dash, x2, y, back, colour, (p.last+p.right)/2, y-5, colour, label)
	if p.several { // mark the arrow with the client's number, because it crosses the lines of others
		fmt.Fprintf(p, `<circle cx="%d" cy="%d" r="8" fill="%s"/><text x="%d" y="%d" text-anchor="middle" fill="#fff" font-size="10">%d</text>`+"\n",
			x, y, colour, x, y+4, r.session.number)
	}
}

// shorten truncates a text to a number of characters.
func shorten(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// escape escapes a text for XML. It replaces characters that XML does not allow.
func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(printable.Line(s))) // a Builder does not fail
	return b.String()
}

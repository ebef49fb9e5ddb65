package demo

import (
	"fmt"
	"html"
	"io"
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
)

// Draw writes the conversation as a sequence diagram, as SVG: the client's and the server's line,
// an arrow for each message, and on the server's line the states of the task.
func (r *Recording) Draw(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	height := top + spacing*len(r.rows) + 30
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<rect width="100%%" height="100%%" fill="#fff"/>
`, width, height, width, height)
	for _, side := range []struct {
		name string
		x    int
	}{{"client", left}, {"server", right}} {
		fmt.Fprintf(&b, `<line x1="%d" y1="50" x2="%d" y2="%d" stroke="#999"/>
<rect x="%d" y="20" width="100" height="30" rx="4" fill="#eef2f7" stroke="#667"/><text x="%d" y="40" text-anchor="middle" font-weight="bold">%s</text>
`, side.x, side.x, height-15, side.x-50, side.x, side.name)
	}
	r.drawStates(&b)
	for i := range r.rows {
		r.rows[i].draw(&b, top+spacing*i)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// drawStates draws the states of the task, from the message that tells one to that which tells the
// next.
func (r *Recording) drawStates(b *strings.Builder) {
	colours := map[mcp.TaskStatus]string{
		mcp.TaskStatusWorking: "#f2b84b", mcp.TaskStatusInputRequired: "#a77bd6", mcp.TaskStatusCompleted: "#5fb87a",
		mcp.TaskStatusFailed: "#d9605b", mcp.TaskStatusCancelled: "#999",
	}
	var status mcp.TaskStatus
	from := 0
	for i := range r.rows {
		next := r.rows[i].status
		if next == "" || next == status {
			continue
		}
		bar(b, colours[status], from, top+spacing*i)
		status, from = next, top+spacing*i
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", right+14, from+4, "#444", html.EscapeString(string(status)))
	}
	bar(b, colours[status], from, top+spacing*len(r.rows))
}

func bar(b *strings.Builder, colour string, from, to int) {
	if colour != "" {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="12" height="%d" fill="%s"/>`+"\n", right-6, from, to-from, colour)
	}
}

// draw draws a row.
func (r *row) draw(b *strings.Builder, y int) {
	label := html.EscapeString(shorten(r.label()))
	fmt.Fprintf(b, `<text x="10" y="%d" fill="#888" font-size="11">%.3f s</text>`+"\n", y+4, r.at.Seconds())
	if r.from == 0 {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="20" fill="#fbe3e2"/><text x="%d" y="%d" text-anchor="middle" fill="#b3261e" font-weight="bold">%s</text>`+"\n",
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
	}
	back := 9 // from the tip to where its sides end
	if x2 > x1 {
		back = -back
	}
	fmt.Fprintf(b, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s"%s/><path d="M%d %dl%d -4v8z" fill="%s"/><text x="%d" y="%d" text-anchor="middle" fill="%s">%s</text>`+"\n",
		x1, y, x2, y, colour, dash, x2, y, back, colour, (left+right)/2, y-5, colour, label)
}

// shorten makes a label fit between the lines.
func shorten(s string) string {
	const most = 80
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// Command poll is a server with a page: the model asks a question, and the user chooses an option on
// the page, in clients that support MCP Apps. Other clients show the votes as text.
//
//	PORT=3000 go run ./examples/poll
package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"log"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/apps"
)

//go:embed poll.html
var page string

// question is what the model asks.
type question struct {
	Text    string   `json:"text" jsonschema:"the question"`
	Options []string `json:"options" jsonschema:"the options to choose from"`
}

// choice is an option that the user has clicked.
type choice struct {
	Text   string `json:"text" jsonschema:"the question"`
	Option string `json:"option"`
}

// poll is a question with its votes.
type poll struct {
	Text    string   `json:"text"`
	Options []string `json:"options"`
	Votes   []int    `json:"votes" jsonschema:"the number of votes by option"`
}

// The limits of polls. A model can ask any number of questions, so the oldest poll makes place for a
// new one.
const (
	maxPolls = 100
	maxBytes = 4 << 10 // of a question with its options
)

// polls holds the latest polls by the text of their question.
type polls struct {
	mu    sync.Mutex
	open  map[string]*poll
	order []string // the questions, the oldest first
}

func main() {
	address := net.JoinHostPort("localhost", cmp.Or(os.Getenv("PORT"), "3000"))
	if err := newServer().ListenAndServe(context.Background(), address, nil); err != nil {
		log.Fatal(err)
	}
}

func newServer() *server.Server {
	s := server.New("poll", "1.0.0", nil)
	p := &polls{open: map[string]*poll{}}
	view := apps.AddView(s, "ui://poll/view.html", "poll", page, nil)
	server.AddTool(s, "poll", "Asks the user to choose, and returns the votes so far.", p.ask, view.Tool())
	server.AddTool(s, "vote", "Counts a vote.", p.vote, view.AppTool())
	return s
}

func (p *polls) ask(_ context.Context, _ *server.Call, q question) (poll, error) {
	size := len(q.Text)
	for _, option := range q.Options {
		size += 1 + len(option) // an option is not free, even if it is empty
	}
	if size > maxBytes {
		return poll{}, fmt.Errorf("the question and its options have more than %d bytes", maxBytes)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[q.Text] == nil {
		if len(p.order) == maxPolls {
			delete(p.open, p.order[0])
			p.order = slices.Delete(p.order, 0, 1)
		}
		p.open[q.Text] = &poll{q.Text, q.Options, make([]int, len(q.Options))}
		p.order = append(p.order, q.Text)
	}
	return p.open[q.Text].copy(), nil
}

func (p *polls) vote(_ context.Context, _ *server.Call, c choice) (poll, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, ok := p.open[c.Text]
	if !ok {
		return poll{}, fmt.Errorf("there is no poll %q", c.Text)
	}
	i := slices.Index(asked.Options, c.Option)
	if i < 0 {
		return poll{}, fmt.Errorf("the options are %s", strings.Join(asked.Options, ", "))
	}
	asked.Votes[i]++
	return asked.copy(), nil
}

// copy returns a copy that later votes do not change.
func (p *poll) copy() poll {
	return poll{p.Text, p.Options, slices.Clone(p.Votes)}
}

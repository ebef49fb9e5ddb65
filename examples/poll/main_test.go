package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server/apps"
	"github.com/mcpwire/mcpwire/runtime/server/servertest"
)

func TestPollCountsVotes(t *testing.T) {
	o := new(client.Options)
	o.Features.Capabilities.Extensions = json.RawMessage(`{"` + apps.Extension + `":{"mimeTypes":["` + apps.MIMEType + `"]}}`)
	c := servertest.Connect(t, newServer(), o)
	for _, call := range []struct {
		tool string
		args any
		want string
	}{
		{"vote", choice{"Tea?", "Yes"}, `there is no poll "Tea?"`},
		{"poll", question{"Tea?", []string{"Yes", "No"}}, `{"text":"Tea?","options":["Yes","No"],"votes":[0,0]}`},
		{"vote", choice{"Tea?", "No"}, `{"text":"Tea?","options":["Yes","No"],"votes":[0,1]}`},
		{"vote", choice{"Tea?", "Maybe"}, "the options are Yes, No"},
		{"poll", question{"Tea?", []string{"Never"}}, `{"text":"Tea?","options":["Yes","No"],"votes":[0,1]}`},
	} {
		result, err := c.CallTool(t.Context(), call.tool, call.args)
		if err != nil {
			t.Fatal(err)
		}
		if got := text(result); got != call.want {
			t.Errorf("%s %v: got %s, want %s", call.tool, call.args, got, call.want)
		}
	}
}

func TestPollsAreLimited(t *testing.T) {
	p := &polls{open: map[string]*poll{}}
	for i := range 3 * maxPolls {
		if _, err := p.ask(t.Context(), nil, question{fmt.Sprint(i), []string{"Yes", "No"}}); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.open) != maxPolls || len(p.order) != maxPolls {
		t.Errorf("%d polls are held, in an order of %d; want %d", len(p.open), len(p.order), maxPolls)
	}
	if _, err := p.vote(t.Context(), nil, choice{fmt.Sprint(3*maxPolls - 1), "Yes"}); err != nil {
		t.Errorf("the latest poll: %v", err)
	}
	for name, q := range map[string]question{
		"long question": {strings.Repeat("?", maxBytes+1), nil},
		"long option":   {"Tea?", []string{strings.Repeat("x", maxBytes)}},
		"many options":  {"Tea?", make([]string, maxBytes)},
	} {
		if _, err := p.ask(t.Context(), nil, q); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func text(result *mcp.CallToolResult) string { return result.Content[0].(*mcp.TextContent).Text }

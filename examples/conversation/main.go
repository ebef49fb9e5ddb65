// Command conversation reads a recorded conversation, in which a tool runs as a task, with the
// types of package mcp. It prints a line for each message, and checks that encoding does not change
// the message.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
)

//go:embed conversation.txt
var recording []byte

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(w io.Writer) error {
	var talk mcp.Conversation
	for line := range strings.Lines(string(recording)) {
		arrow, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		side, direction := mcp.FromClient, "client -> server"
		if arrow == "<" {
			side, direction = mcp.FromServer, "server -> client"
		}
		typed, err := talk.DecodeFrom(side, []byte(text))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s  %-14s %-26s %s\n", direction, label(typed), typed.For, describe(typed))

		same, err := unchanged(typed, text)
		if err != nil || !same {
			return fmt.Errorf("encoding changes this message: %s (%v)", text, err)
		}
	}
	fmt.Fprintln(w, "\nEncoded again, every message equals the original, including every digit and every unknown member.")
	return nil
}

// label returns the kind of a message and its id.
func label(t mcp.Typed) string {
	switch t.Kind {
	case jsonrpc.KindNotification:
		return "notification"
	case jsonrpc.KindErrorResponse:
		return "error " + t.ID.String()
	case jsonrpc.KindResponse:
		return "result " + t.ID.String()
	}
	return "request " + t.ID.String()
}

// describe summarizes a message. The payload is a pointer to a struct of package mcp, so a type
// switch distinguishes all messages.
func describe(t mcp.Typed) string {
	switch p := t.Payload.(type) {
	case *mcp.CallToolRequestParams:
		s := fmt.Sprintf("call %q with %s", p.Name, string(p.Arguments))
		if p.Task != nil && p.Task.TTL != nil {
			s += fmt.Sprintf(", as a task kept for %d s", *p.Task.TTL/1000)
		}
		return s
	case *mcp.CreateTaskResult:
		return fmt.Sprintf("task %s is %s; look again every %d ms", p.Task.TaskID, p.Task.Status, *p.Task.PollInterval)
	case *mcp.ProgressNotificationParams:
		return fmt.Sprintf("%g of %g: %s", p.Progress, *p.Total, *p.Message)
	case *mcp.GetTaskResult:
		return fmt.Sprintf("task %s is %s: %s", p.TaskID, p.Status, *p.StatusMessage)
	case *mcp.TaskStatusNotificationParams:
		return fmt.Sprintf("task %s is %s", p.TaskID, p.Status)
	case *mcp.ElicitRequestFormParams:
		s := "asks " + p.Message
		if light, ok := p.RequestedSchema.Properties["light"].(*mcp.UntitledSingleSelectEnumSchema); ok {
			s += " " + strings.Join(light.Enum, ", ")
		}
		return s
	case *mcp.ElicitResult:
		light := p.Content["light"].(*mcp.ElicitResultContentValueScalar)
		return fmt.Sprintf("%s %s", p.Action, light.Value)
	case *mcp.CallToolResult:
		var parts []string
		for _, c := range p.Content {
			switch c := c.(type) {
			case *mcp.TextContent:
				parts = append(parts, fmt.Sprintf("text %q", c.Text))
			case *mcp.ResourceLink:
				parts = append(parts, "link to "+c.Name)
			case *mcp.Unknown:
				parts = append(parts, "unknown content, kept: "+string(c.Raw))
			}
		}
		return strings.Join(parts, ", ")
	case *mcp.GetTaskRequestParams:
		return "how is task " + p.TaskID
	case *mcp.GetTaskPayloadRequestParams:
		return "the result of task " + p.TaskID
	case *mcp.CancelTaskRequestParams:
		return "stop task " + p.TaskID
	}
	if t.Error != nil {
		return fmt.Sprintf("code %d: %s", t.Error.Code, t.Error.Message)
	}
	return fmt.Sprintf("%T", t.Payload)
}

// unchanged encodes the message and reports whether the result equals text.
func unchanged(t mcp.Typed, text string) (bool, error) {
	got, err := t.Message.AppendJSON(nil)
	if err != nil {
		return false, err
	}
	a, err := normal([]byte(text))
	if err != nil {
		return false, err
	}
	b, err := normal(got)
	return a == b, err
}

// normal returns text with sorted members and with the original text of numbers.
func normal(text []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	out, err := json.Marshal(v)
	return string(out), err
}

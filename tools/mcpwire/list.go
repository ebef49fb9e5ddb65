package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

// listCommands returns the commands that list the features of a server.
func listCommands() []command {
	return []command{
		listCommand("tools", "list the tools of a server, with their arguments", (*remote).listTools),
		listCommand("resources", "list the resources and resource templates of a server", (*remote).listResources),
		listCommand("prompts", "list the prompts of a server, with their arguments", (*remote).listPrompts),
	}
}

func listCommand(name, short string, run func(r *remote, ctx context.Context) error) command {
	return command{
		name:  name,
		args:  "[-json] [-era ERA] [-env NAME] [-header H] [-root DIR] " + authArgs + " SERVER",
		short: short,
		help: `
Connects to a server and lists its ` + name + `.
` + serverHelp + `
Example:

  mcpwire ` + name + ` https://example.com/mcp
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			r := new(remote)
			r.declare(flags)
			return func(ctx context.Context, s streams, args []string) error {
				switch {
				case len(args) == 0:
					return usagef("missing SERVER")
				case len(args) > 1:
					return usagef("unexpected argument %q", args[1])
				}
				return r.withServer(ctx, s, args[0], func() error { return run(r, ctx) })
			}
		},
	}
}

// each writes the items of a list, as JSON or with show.
func each[T codec.Encoder](r *remote, list iter.Seq2[T, error], show func(T) error) error {
	for item, err := range list {
		switch {
		case err != nil:
			return err
		case r.json:
			err = r.writeJSON(item)
		default:
			err = show(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *remote) listTools(ctx context.Context) error { return each(r, r.Tools(ctx), r.writeTool) }

func (r *remote) writeTool(t *mcp.Tool) error {
	title := client.Title(t)
	if title == t.Name {
		title = ""
	}
	if t.Execution != nil && t.Execution.TaskSupport != nil && *t.Execution.TaskSupport != mcp.TaskSupportForbidden {
		title = strings.TrimSpace(fmt.Sprintf("%s (as a task: %s)", title, *t.Execution.TaskSupport))
	}
	if err := r.writeEntry(t.Name, title, t.Description); err != nil {
		return err
	}
	properties, err := propertiesOf(t)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p := properties[name]
		description := p.description()
		if constraints := p.constraints(); constraints != "" {
			description = strings.TrimLeft(description+" ["+constraints+"]", " ")
		}
		if err := r.writeArgument(name, p.kind(), slices.Contains(t.InputSchema.Required, name), description); err != nil {
			return err
		}
	}
	return nil
}

func (r *remote) listResources(ctx context.Context) error {
	err := each(r, r.Resources(ctx), func(x *mcp.Resource) error {
		return r.writeEntry(x.URI, client.Title(x), x.Description)
	})
	if err != nil {
		return err
	}
	err = each(r, r.ResourceTemplates(ctx), func(x *mcp.ResourceTemplate) error {
		return r.writeEntry(x.URITemplate, client.Title(x), x.Description)
	})
	if jsonrpc.CodeOf(err) == jsonrpc.CodeMethodNotFound {
		return nil // a server without templates may not implement the method
	}
	return err
}

func (r *remote) listPrompts(ctx context.Context) error {
	return each(r, r.Prompts(ctx), func(p *mcp.Prompt) error {
		if err := r.writeEntry(p.Name, client.Title(p), p.Description); err != nil {
			return err
		}
		for _, a := range p.Arguments {
			description := ""
			if a.Description != nil {
				description = *a.Description
			}
			if err := r.writeArgument(a.Name, "text", a.Required != nil && *a.Required, description); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeEntry writes an item of a list.
func (r *remote) writeEntry(name, title string, description *string) error {
	if title == name {
		title = ""
	}
	text := strings.TrimRight(printable.Line(name)+"  "+printable.Line(title), " ") + "\n"
	if description != nil {
		for line := range strings.Lines(*description) {
			text += "    " + strings.TrimSpace(line) + "\n"
		}
	}
	_, err := io.WriteString(r.out, text)
	return err
}

// writeArgument writes an argument of a tool or a prompt.
func (r *remote) writeArgument(name, kind string, required bool, description string) error {
	if required {
		kind += ", required"
	}
	_, err := fmt.Fprintln(r.out, strings.TrimRight(fmt.Sprintf("    %s=  (%s) %s", printable.Line(name), printable.Line(kind), printable.Line(description)), " "))
	return err
}

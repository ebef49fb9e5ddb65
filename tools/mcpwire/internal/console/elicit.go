package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/form"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

// Inputs with a special meaning in any field.
const (
	declineWord = ":decline"
	cancelWord  = ":cancel"
	emptyWord   = ":empty" // only for an optional field with a default
)

// errDeclined and errCancelled mean that the user declined or cancelled the request.
var (
	errDeclined  = errors.New("console: declined")
	errCancelled = errors.New("console: cancelled")
)

// askUser asks a question of a server. The user can also decline and cancel.
func (c *Console) askUser(ctx context.Context, prompt string) (string, error) {
	line, err := c.Ask(ctx, prompt)
	switch {
	case err == io.EOF:
		return "", errCancelled
	case err != nil:
		return "", err
	case strings.TrimSpace(line) == declineWord:
		return "", errDeclined
	case strings.TrimSpace(line) == cancelWord:
		return "", errCancelled
	}
	return line, nil
}

// Fill implements [client.Input].Fill. It asks for the fields of a form, one after another. If
// the input ends, it cancels the form.
func (c *Console) Fill(ctx context.Context, f *client.FormRequest) (*mcp.ElicitResult, error) {
	c.forms.Lock()
	defer c.forms.Unlock()
	c.Line("%s asks:", nameOf(f.Server))
	c.Quote(f.Message)
	c.Line("(type %s to decline, %s to cancel)", declineWord, cancelWord)
	for {
		content, err := c.fields(ctx, f.Fields)
		if err == nil && c.terminal {
			var again bool
			if again, err = c.review(ctx); again {
				continue
			}
		}
		switch err {
		case nil:
			return client.Accept(content)
		case errDeclined:
			return client.Decline(), nil
		case errCancelled:
			return client.Cancel(), nil
		}
		return nil, err
	}
}

// fields asks for each field.
func (c *Console) fields(ctx context.Context, list []form.Field) (map[string]form.Value, error) {
	content := map[string]form.Value{}
	for _, f := range list {
		v, err := c.field(ctx, &f)
		if err != nil {
			return nil, err
		}
		if v != nil || emptiable(&f) {
			content[f.Name] = v // nil if the user removed the default: an absent member would mean the default
		}
	}
	return content, nil
}

// emptiable reports whether the user may remove the default of a field.
func emptiable(f *form.Field) bool { return f.Default != nil && !f.Required }

// field asks for a field until the answer is valid. An empty line means the default or, for an
// optional field without default, no value.
func (c *Console) field(ctx context.Context, f *form.Field) (form.Value, error) {
	for {
		line, err := c.askUser(ctx, label(f))
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(line) == "" && (f.Default != nil || !f.Required) {
			return f.Default, nil
		}
		if strings.TrimSpace(line) == emptyWord && emptiable(f) {
			return nil, nil
		}
		v, err := f.Parse(line)
		if err == nil {
			return v, nil
		}
		c.Line("  %v", err)
	}
}

// nameOf returns the name of a server in quotes. Quotes within the name are escaped.
func nameOf(server mcp.Implementation) string {
	name := client.Title(&server)
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName]) + "…"
	}
	return strconv.Quote(name)
}

// maxName is the maximum number of characters shown of a server's name.
const maxName = 60

// label returns the prompt for a field: one line, with the prefix for text from another program.
func label(f *form.Field) string {
	var b strings.Builder
	b.WriteString(Prefix + f.Title)
	if f.Description != "" {
		b.WriteString(" – " + f.Description)
	}
	switch f.Kind {
	case form.Choice, form.Choices:
		var list []string
		for i, o := range f.Options {
			list = append(list, fmt.Sprintf("%d %s", i+1, o.Title))
		}
		b.WriteString(" (" + strings.Join(list, ", ") + ")")
		if f.Kind == form.Choices {
			b.WriteString(", one or more, separated by commas")
		}
	case form.Bool:
		b.WriteString(" (yes or no)")
	case form.Number, form.Integer:
		b.WriteString(" (a number)")
	}
	if f.Format != "" {
		fmt.Fprintf(&b, " (%s)", f.Format)
	}
	switch {
	case emptiable(f):
		fmt.Fprintf(&b, " [%s, or %s]", form.Format(f.Default), emptyWord)
	case f.Default != nil:
		fmt.Fprintf(&b, " [%s]", form.Format(f.Default))
	case !f.Required:
		b.WriteString(" [none]")
	}
	return printable.Line(b.String()) + ": "
}

// review asks the user to confirm the answers before they are sent.
func (c *Console) review(ctx context.Context) (again bool, err error) {
	line, err := c.askUser(ctx, "Send this? (yes or again) [yes]: ")
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "a"), err
}

// OpenURL implements [client.Input].OpenURL. It shows a URL and asks for the user's consent. The
// user opens the page.
func (c *Console) OpenURL(ctx context.Context, u *client.URLRequest) (mcp.ElicitAction, error) {
	c.forms.Lock()
	defer c.forms.Unlock()
	c.Line("%s wants you to open a page in your browser. It says:", nameOf(u.Server))
	c.Quote(u.Message)
	c.Page(u.URL)
	line, err := c.askUser(ctx, "Will you open it? (yes or no) [no]: ")
	switch {
	case err == errCancelled:
		return mcp.ElicitActionCancel, nil
	case err != nil && err != errDeclined:
		return "", err
	case err == nil && strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y"):
		return mcp.ElicitActionAccept, nil
	}
	return mcp.ElicitActionDecline, nil
}

// Page shows the full URL of a page that a server wants the user to open, and its domain on a
// separate line (MCP elicitation, "Safe URL Handling").
func (c *Console) Page(link string) {
	domain := "none"
	if u, err := url.Parse(link); err == nil && u.Hostname() != "" {
		domain = u.Hostname()
	}
	c.Line("  domain: %s", domain)
	if strings.Contains(strings.ToLower(domain), "xn--") || strings.ContainsFunc(domain, func(r rune) bool { return r > '~' }) {
		c.Line("  warning: the domain has letters that may look like others")
	}
	c.Line("  page:   %s", link)
}

package console

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// request is a form of a server called S.
func request(t *testing.T, schema string) *client.FormRequest {
	t.Helper()
	p := new(mcp.ElicitRequestFormParams)
	if err := codec.Unmarshal([]byte(`{"message":"Which?","requestedSchema":{"type":"object",`+schema+`}}`), p); err != nil {
		t.Fatal(err)
	}
	return &client.FormRequest{Server: mcp.Implementation{Name: "s", Title: new("S")}, ElicitRequestFormParams: p}
}

const shop = `"required":["size"],"properties":{"size":{"type":"integer","title":"Size","description":"in inches","maximum":9},` +
	`"colour":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"g"},"note":{"type":"string"},"gift":{"type":"boolean"}}`

// Proves ELIC-08, ELIC-14.
func TestFormsAreFilledInByLines(t *testing.T) {
	for _, test := range []struct {
		name, input string
		terminal    bool
		want        string
	}{
		{"all answers", "4\nred\nyes\nthanks\n", false, `{"action":"accept","content":{"colour":"r","gift":true,"note":"thanks","size":4}}`},
		{"empty lines", "4\n\n\n\n", false, `{"action":"accept","content":{"colour":"g","size":4}}`},
		{"until it fits", "\nten\n10\n9\n3\n2\n\n\n", false, `{"action":"accept","content":{"colour":"g","size":9}}`},
		{"no line break at the end", "4\n1\nno\nx", false, `{"action":"accept","content":{"colour":"r","gift":false,"note":"x","size":4}}`},
		{"no lines", "", false, `{"action":"cancel"}`},
		{"declined", "4\n:decline\n", false, `{"action":"decline"}`},
		{"cancelled", " :cancel \n", false, `{"action":"cancel"}`},
		{"reviewed", "4\n\n\n\n\n", true, `{"action":"accept","content":{"colour":"g","size":4}}`},
		{"again", "4\n\n\n\nagain\n5\n\n\n\nyes\n", true, `{"action":"accept","content":{"colour":"g","size":5}}`},
		{"declined at last", "4\n\n\n\n:decline\n", true, `{"action":"decline"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			c := New(strings.NewReader(test.input), &out)
			c.terminal = test.terminal
			answer, err := c.Fill(t.Context(), request(t, shop))
			if err != nil {
				t.Fatal(err)
			}
			got, err := codec.Marshal(answer)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v; want %s\n%s", got, err, test.want, &out)
			}
			for _, want := range []string{"S asks: Which?\n", ":decline", "Size – in inches (a number): "} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the user does not see %q:\n%s", want, &out)
				}
			}
		})
	}
}

// Proves ELIC-14, ELIC-15.
func TestURLsAreShownInFull(t *testing.T) {
	const page = "https://x.example/in?token=1"
	for input, want := range map[string]mcp.ElicitResultAction{
		"yes\n": "accept", "\n": "decline", "no\n": "decline", ":decline\n": "decline", ":cancel\n": "cancel", "": "cancel",
	} {
		var out strings.Builder
		got, err := New(strings.NewReader(input), &out).OpenURL(t.Context(), &client.URLRequest{
			Server: mcp.Implementation{Name: "s"}, Host: "x.example",
			ElicitRequestURLParams: &mcp.ElicitRequestURLParams{URL: page, Message: "Sign in"},
		})
		if got != want || err != nil {
			t.Errorf("%q: got %s, %v", input, got, err)
		}
		if !strings.Contains(out.String(), "s wants you to open a page of x.example: Sign in\n  "+page+"\n") {
			t.Errorf("the user sees\n%s", &out)
		}
	}
}

func TestTheNewestQuestionComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, input := io.Pipe()
		var out strings.Builder
		c := New(in, &out)
		answers := make(chan string, 2)
		ask := func(prompt string) {
			go func() {
				line, err := c.Ask(t.Context(), prompt)
				answers <- prompt + line
				if err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
		}
		ask("old? ")
		ask("new? ")
		c.Line("a line between")
		io.WriteString(input, "1\n2\n")
		got := []string{<-answers, <-answers}
		slices.Sort(got)
		if diff := cmp.Diff([]string{"new? 1", "old? 2"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		want := "old? new? a line between\nnew? 1\nold? 2\n"
		if out.String() != want {
			t.Errorf("the user sees %q, want %q", &out, want)
		}

		// A line for a question that is over serves the next one.
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		go func() {
			synctest.Wait()
			cancel(gone)
		}()
		if _, err := c.Ask(ctx, "late? "); err != gone {
			t.Errorf("got %v", err)
		}
		io.WriteString(input, "3\n")
		synctest.Wait()
		if line, err := c.Ask(t.Context(), "next? "); line != "3" || err != nil {
			t.Errorf("got %q, %v", line, err)
		}
		input.Close()
		for range 2 {
			if _, err := c.Ask(t.Context(), "last? "); err != io.EOF {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestQuestionsAreSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, input := io.Pipe()
		defer input.Close()
		var out strings.Builder
		c := New(in, &out)
		c.terminal = true
		answers := make(chan string, 2)
		ask := func(prompt string) {
			line, err := c.Ask(t.Context(), prompt)
			answers <- prompt + line
			if err != nil {
				t.Error(err)
			}
		}
		go ask("old? ")
		synctest.Wait()
		back := c.SetAside()
		c.Line("a line")
		go ask("first? ")
		synctest.Wait()
		io.WriteString(input, "1\n")
		if got := <-answers; got != "first? 1" {
			t.Errorf("got %q", got)
		}
		c.Line("another")
		if want := "old? \na line\nfirst? another\n"; out.String() != want {
			t.Errorf("the user sees %q, want %q", &out, want)
		}
		back()
		io.WriteString(input, "2\n")
		if got := <-answers; got != "old? 2" {
			t.Errorf("got %q", got)
		}
	})
}

func TestProgressIsToldByQuarters(t *testing.T) {
	var out strings.Builder
	c := New(strings.NewReader(""), &out)
	for i := range 11 {
		c.Progress(session.Progress{Value: float64(i), Total: new(10.0), Message: "step"})
	}
	c.Finish()
	c.Progress(session.Progress{Value: 3, Message: "lines"})
	want := " 30 % step\n 50 % step\n 80 % step\n100 % step\n3 lines\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestATerminalHasABar(t *testing.T) {
	var out strings.Builder
	c := New(strings.NewReader(""), &out)
	c.terminal = true
	c.Progress(session.Progress{Value: 5, Total: new(10.0), Message: "half"})
	if !strings.Contains(out.String(), "half") || !strings.Contains(out.String(), "50%") {
		t.Errorf("the user sees %q", &out)
	}
	c.Line("a line")
	if !strings.HasSuffix(out.String(), "\ra line\n") {
		t.Errorf("the user sees %q", &out)
	}
	out.Reset()
	c.Progress(session.Progress{Value: 7, Message: "no total"})
	c.Finish()
	if !strings.Contains(out.String(), "no total") {
		t.Errorf("the user sees %q", &out)
	}
}

package console

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/form"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// request returns a form of a server named S.
func request(t *testing.T, schema string) *client.FormRequest {
	t.Helper()
	p := new(mcp.ElicitRequestFormParams)
	if err := codec.Unmarshal([]byte(`{"message":"Which?","requestedSchema":{"type":"object",`+schema+`}}`), p); err != nil {
		t.Fatal(err)
	}
	return &client.FormRequest{Server: mcp.Implementation{Name: "s", Title: new("S")}, ElicitRequestFormParams: p, Fields: form.Fields(&p.RequestedSchema)}
}

const orderForm = `"required":["size"],"properties":{"size":{"type":"integer","title":"Size","description":"in inches","maximum":9},` +
	`"colour":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g","title":"Green"}],"default":"g"},"note":{"type":"string"},"gift":{"type":"boolean"}}`

// Proves ELIC-08, ELIC-14.
func TestFill(t *testing.T) {
	for _, test := range []struct {
		name, input string
		terminal    bool
		want        string
	}{
		{"all answers", "4\nred\nyes\nthanks\n", false, `{"action":"accept","content":{"colour":"r","gift":true,"note":"thanks","size":4}}`},
		{"empty lines", "4\n\n\n\n", false, `{"action":"accept","content":{"colour":"g","size":4}}`},
		{"invalid answers are asked again", "\nten\n10\n9\n3\n2\n\n\n", false, `{"action":"accept","content":{"colour":"g","size":9}}`},
		{"no line break at the end", "4\n1\nno\nx", false, `{"action":"accept","content":{"colour":"r","gift":false,"note":"x","size":4}}`},
		{"no lines", "", false, `{"action":"cancel"}`},
		{"declined", "4\n:decline\n", false, `{"action":"decline"}`},
		{"cancelled", " :cancel \n", false, `{"action":"cancel"}`},
		{"reviewed", "4\n\n\n\n\n", true, `{"action":"accept","content":{"colour":"g","size":4}}`},
		{"review answered with again", "4\n\n\n\nagain\n5\n\n\n\nyes\n", true, `{"action":"accept","content":{"colour":"g","size":5}}`},
		{"declined at the end", "4\n\n\n\n:decline\n", true, `{"action":"decline"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			c := New(strings.NewReader(test.input), &out)
			c.terminal = test.terminal
			answer, err := c.Fill(t.Context(), request(t, orderForm))
			if err != nil {
				t.Fatal(err)
			}
			got, err := codec.Marshal(answer)
			if err != nil || string(got) != test.want {
				t.Errorf("got %s, %v; want %s\n%s", got, err, test.want, &out)
			}
			for _, want := range []string{"\"S\" asks:\n  | Which?\n", ":decline", "  | Size – in inches (a number): "} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output lacks %q:\n%s", want, &out)
				}
			}
		})
	}
}

func TestFillRemovesDefaults(t *testing.T) {
	var out strings.Builder
	answer, err := New(strings.NewReader("4\n:empty\n\n:empty\n"), &out).Fill(t.Context(), request(t, orderForm))
	if err != nil {
		t.Fatal(err)
	}
	if colour, ok := answer.Content["colour"]; !ok || colour != nil {
		t.Errorf("colour is %v, %t; want no value instead of the default", colour, ok)
	}
	if note := answer.Content["note"]; note == nil || form.Format(note) != ":empty" {
		t.Errorf("note without default is %v", note)
	}
}

// Proves ELIC-14, ELIC-15, M-ELIC-04.
func TestOpenURLShowsFullURL(t *testing.T) {
	const page = "https://x.example/in?token=1"
	for input, want := range map[string]mcp.ElicitAction{
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
		if !strings.Contains(out.String(), "\"s\" wants you to open a page in your browser. It says:\n  | Sign in\n  domain: x.example\n  page:   "+page+"\n") {
			t.Errorf("output:\n%s", &out)
		}
	}
}

func TestNewestQuestionIsAnsweredFirst(t *testing.T) {
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
			t.Errorf("output %q, want %q", &out, want)
		}

		// A line read for a cancelled question answers the next one.
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("cancelled")
		go func() {
			synctest.Wait()
			cancel(cause)
		}()
		if _, err := c.Ask(ctx, "late? "); err != cause {
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

// A line that the user has typed for a question that was withdrawn must not answer another one, such
// as whether to open a page, before the user has seen it.
func TestLineForWithdrawnQuestionIsIgnoredAtTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, input := io.Pipe()
		defer input.Close()
		var out strings.Builder
		c := New(in, &out)
		c.terminal = true
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			synctest.Wait()
			cancel()
		}()
		if _, err := c.Ask(ctx, "weather? "); err != context.Canceled {
			t.Fatal(err)
		}
		io.WriteString(input, "yes\n")
		synctest.Wait()
		answer := make(chan string, 1)
		go func() {
			line, err := c.Ask(t.Context(), "pay? ")
			if err != nil {
				t.Error(err)
			}
			answer <- line
		}()
		synctest.Wait()
		if len(answer) > 0 {
			t.Fatalf("answer %q", <-answer)
		}
		io.WriteString(input, "no\n")
		if line := <-answer; line != "no" {
			t.Errorf("answer %q", line)
		}
		if want := "weather? \nthe line is ignored, because its question was withdrawn\npay? "; out.String() != want {
			t.Errorf("output %q, want %q", &out, want)
		}
	})
}

func TestSetAsideHidesPendingQuestions(t *testing.T) {
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
			t.Errorf("output %q, want %q", &out, want)
		}
		back()
		io.WriteString(input, "2\n")
		if got := <-answers; got != "old? 2" {
			t.Errorf("got %q", got)
		}
	})
}

func TestProgressWithoutTerminalShowsQuarters(t *testing.T) {
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

func TestProgressBarOnTerminal(t *testing.T) {
	var out strings.Builder
	c := New(strings.NewReader(""), &out)
	c.terminal = true
	c.Progress(session.Progress{Value: 5, Total: new(10.0), Message: "half"})
	if !strings.Contains(out.String(), "half") || !strings.Contains(out.String(), "50%") {
		t.Errorf("output %q", &out)
	}
	c.Line("a line")
	if !strings.HasSuffix(out.String(), "\ra line\n") {
		t.Errorf("output %q", &out)
	}
	out.Reset()
	c.Progress(session.Progress{Value: 7, Message: "no total"})
	c.Finish()
	if !strings.Contains(out.String(), "no total") {
		t.Errorf("output %q", &out)
	}
}

// Text from a server cannot imitate lines of the command, and cannot move the cursor.
func TestServerCannotImitateConsole(t *testing.T) {
	const evil = "log in\x1b[1A\x1b[2K\r\n\"bank\" wants you to open a page in your browser. It says:\n  domain: bank.example\n" +
		"  page:   https://bank.example/\nWill you open it? (yes or no) [no]: \u202e\x1b[8m"
	var out strings.Builder
	c := New(strings.NewReader("no\n:cancel\n"), &out)
	name := mcp.Implementation{Name: "x\" wants you to open a page of bank.example:\n" + strings.Repeat("y", 1000)}
	if _, err := c.OpenURL(t.Context(), &client.URLRequest{Server: name, ElicitRequestURLParams: &mcp.ElicitRequestURLParams{
		URL: "https://bank.example@xn--evil-5qa.example/in?\u202e", Message: evil,
	}}); err != nil {
		t.Error(err)
	}
	form := request(t, `"properties":{"a":{"type":"string","title":"Will you open it?\nSend this?","description":"\u009b2K"}}`)
	form.Message = evil + strings.Repeat("z\n", 10000)
	if _, err := c.Fill(t.Context(), form); err != nil {
		t.Error(err)
	}
	c.Progress(session.Progress{Value: 1, Message: evil})
	c.Write([]byte(evil + "\n"))
	c.Line("%s: %s", "state", evil)
	ownLines := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		if strings.ContainsFunc(line, func(r rune) bool { return r != '\n' && (r < ' ' || r == '\u202e' || r == '\u009b') }) {
			t.Errorf("control characters in %q", line)
		}
		if len(line) > 8000 {
			t.Errorf("%d bytes in a line", len(line))
		}
		if !strings.HasPrefix(line, "  | ") {
			ownLines[strings.TrimSuffix(line, "\n")] = true
		}
	}
	for line := range ownLines {
		for _, lie := range []string{"  domain: bank", "  page:   https://bank.example/", "\"bank\"", "Send this?"} {
			if strings.HasPrefix(line, lie) && !strings.Contains(line, "xn--evil") {
				t.Errorf("the server imitated a line of the command: %q", line)
			}
		}
	}
	for _, want := range []string{"  domain: xn--evil-5qa.example", "  warning: the domain has letters that may look like others", `  page:   https://bank.example@xn--evil-5qa.example/in?\u202e`} {
		if !ownLines[want] {
			t.Errorf("no line %q in\n%s", want, &out)
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines > 100 {
		t.Errorf("%d lines", lines)
	}
}

func TestHasInputIsFalseAtEndOfInput(t *testing.T) {
	for input, want := range map[string]bool{"": false, "x": true, "yes\n": true} {
		c := New(strings.NewReader(input), io.Discard)
		if got := c.HasInput(); got != want {
			t.Errorf("%q: got %v", input, got)
		}
		line, err := c.Ask(t.Context(), "")
		if want != (err == nil) || line != strings.TrimSpace(input) {
			t.Errorf("%q: read %q, %v", input, line, err)
		}
	}
}

// The input may belong to the script that runs the command, such as the list of a loop.
func TestHasInputReadsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte("a\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, input, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(input, "a\nb\n")
	input.Close()
	list, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer list.Close()
	for name, in := range map[string]*os.File{"pipe": pipe, "file": list} {
		if !New(in, io.Discard).HasInput() {
			t.Errorf("%s: HasInput is false", name)
		}
		if rest, err := io.ReadAll(in); string(rest) != "a\nb\n" || err != nil {
			t.Errorf("%s: the rest is %q, %v", name, rest, err)
		}
	}
	if New(list, io.Discard).HasInput() {
		t.Error("HasInput is true at the end of a file")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if New(null, io.Discard).HasInput() {
		t.Error("HasInput is true for the null device")
	}
}

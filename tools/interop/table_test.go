package interop

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/mcp"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/reference/interop.md")

// The tables of the documentation are those of the tests.
func TestTablesOfDocs(t *testing.T) {
	const file, begin, end = "../../docs/reference/interop.md", "<!-- tables -->\n", "<!-- end of tables -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no section for the tables", file)
	}
	want := before + begin + tables() + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nrun go test with -update", file, diff)
	}
}

func tables() string {
	var notes []string // each a step and why it fails
	var b strings.Builder
	table := func(title, other, ours string, rows func(row func(name, transport string, outcomes [3]outcome))) {
		fmt.Fprintf(&b, "## %s\n\n| %s | transport |", title, other)
		for _, c := range choices {
			fmt.Fprintf(&b, " %s: %s |", ours, c.name)
		}
		b.WriteString("\n|---|---|---|---|---|\n")
		rows(func(name, transport string, outcomes [3]outcome) {
			fmt.Fprintf(&b, "| %s | %s |", name, transport)
			for _, o := range outcomes {
				fmt.Fprintf(&b, " %s |", cell(o, &notes))
			}
			b.WriteString("\n")
		})
		b.WriteString("\n")
	}
	table("Servers of other SDKs", "server", "our client", func(row func(string, string, [3]outcome)) {
		for _, s := range theirServers {
			row(s.name, s.transport, s.outcomes)
		}
	})
	table("Clients of other SDKs", "client", "our server", func(row func(string, string, [3]outcome)) {
		for _, c := range theirClients {
			row(c.name, "HTTP", c.http)
			row(c.name, "stdio", c.stdio)
		}
		for _, c := range typescriptClients {
			row(c.name, "HTTP", c.http)
			row(c.name, "stdio", c.stdio)
		}
	})
	b.WriteString("## Tasks with other Go SDKs\n\n| client | server | revisions |\n|---|---|---|\n")
	for _, p := range taskPairs {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.client, p.server, p.revisions)
	}
	b.WriteString("\n## What fails\n\n")
	for i, note := range notes {
		fmt.Fprintf(&b, "%d. %s\n", i+1, note)
	}
	b.WriteString("\n")
	return b.String()
}

// cell describes an outcome. It adds its lacks to notes.
func cell(o outcome, notes *[]string) string {
	text := "none"
	switch o.revision {
	case mcp.Revision20251125:
		text = "sessions"
	case mcp.Revision20260728:
		text = string(o.revision)
	}
	var reasons []string
	for _, l := range o.lacks { // those with one reason are one note
		if !slices.Contains(reasons, l.why) {
			reasons = append(reasons, l.why)
		}
	}
	var numbers []string
	for _, why := range reasons {
		var names []string
		for _, l := range o.lacks {
			if l.why == why {
				names = append(names, l.step)
			}
		}
		note := fmt.Sprintf("**%s**: %s", strings.Join(names, ", "), why)
		if !slices.Contains(*notes, note) {
			*notes = append(*notes, note)
		}
		numbers = append(numbers, fmt.Sprint(slices.Index(*notes, note)+1))
	}
	if len(numbers) > 0 {
		text += " (" + strings.Join(numbers, ", ") + ")"
	}
	return text
}

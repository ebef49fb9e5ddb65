package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/tools/compare/probe"
)

// Report is the whole comparison.
type Report struct {
	Peers   []Peer
	Groups  []Group
	Cells   map[Input][]Cell // one for each peer, in their order
	Schemas []*Generated
	probes  map[Input]probe.Trial // of probes, through generated code
}

// probes are documents for the generated code alone, for the text about it.
var (
	stringID = Input{Name: "string id", Rev: november, Def: "RequestId", Doc: `"a-1"`}
	probes   = []Input{stringID}
)

// Run makes the comparison. It takes as long as the go command needs to compile the generated code.
func Run() (*Report, error) {
	r := &Report{Groups: Groups(), Cells: map[Input][]Cell{}}
	var inputs []Input
	for _, g := range r.Groups {
		inputs = append(inputs, g.Inputs...)
	}
	var err error
	if r.Schemas, r.probes, err = generate(slices.Concat(inputs, probes)); err != nil {
		return nil, err
	}
	r.Peers = []Peer{goJSONSchema(r.probes), official(), mcpGo(), mcpwire()}
	for _, in := range inputs {
		for _, p := range r.Peers {
			c := judge(in, p.Attempt(in))
			if p.Else != nil {
				c.Notes = append(c.Notes, otherwise(c, judge(in, p.Else(in)))...)
			}
			r.Cells[in] = append(r.Cells[in], c)
		}
	}
	return r, nil
}

// otherwise says how other differs from c, the wording of errors aside.
func otherwise(c, other Cell) []string {
	switch {
	case other.Verdict != c.Verdict:
		return []string{strings.Join(append([]string{"in its own sessions " + string(other.Verdict)}, other.Notes...), ", ")}
	case c.Verdict == Refused || slices.Equal(c.Notes, other.Notes):
		return nil
	}
	return []string{"in its own sessions it " + strings.Join(other.Notes, ", ")}
}

// Markdown writes the report.
func (r *Report) Markdown() (string, error) {
	var b strings.Builder
	b.WriteString(introduction)
	libraries(&b, r.Peers)
	if err := r.schemas(&b); err != nil {
		return "", err
	}
	r.table(&b)
	r.totals(&b)
	r.details(&b)
	return b.String(), nil
}

const introduction = `# What becomes of a message

Small MCP documents, each decoded into the Go types of four libraries and encoded again. What comes out is compared with
what went in, as JSON: members in any order, numbers exactly, so that 60000.0 is 60000 but 9007199254740993 is not
9007199254740992. A gateway, a recorder or a proxy does just this with every message, and a server or a client does half
of it.

A command writes this file. What it says of a library comes from running that library:

    cd tools/compare && go run . -write ../../docs/comparison.md

A cell says one of:

- **exact**: the document comes out as it went in.
- **lost**: something of it does not come out.
- **changed**: something comes out as something else, or something comes out that was not there.
- **refused**: decoding fails. For a document that the schema admits that is wrong. For one that only a newer revision
  may know it is not: a message that is turned away is at least noticed. For one that breaks the schema it is what
  should happen.
- **accepted**: decoding does not fail, though the document breaks the schema.
- **no type**: the library has no Go type for what the row is about, or holds it as just any JSON. That is neither right nor
  wrong; the library may leave the feature out for good reasons.

What is wrong is in bold. A row belongs to 2025-06-18, which all the libraries cover, unless it is about something newer;
the details name the revision.

The other libraries are used as their documentation has it, and two of them are made for another purpose: they hold
conversations for you, and what their types drop is often what their sessions do not need. A row says nothing about that.

Broken JSON, messages that are none, and other things that decoders get wrong have [a page of their own](hostile.md).
`

func libraries(b *strings.Builder, peers []Peer) {
	b.WriteString("\n## The libraries\n\n")
	for _, p := range peers {
		fmt.Fprintf(b, "- **%s**, `%s`, %s. %s\n", p.Name, p.Module, version(p.Module), p.How)
	}
}

// self is the module that go.mod replaces by the folder above.
const self = "github.com/mcpwire/mcpwire"

// version finds the version of a module in go.mod.
func version(module string) string {
	mod, err := goFiles.ReadFile("go.mod")
	if err != nil {
		panic(err) // it is embedded
	}
	for line := range strings.Lines(string(mod)) {
		f := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(f) >= 2 && f[0] == module && f[0] != self {
			return f[1]
		}
	}
	if module != self {
		return "as it comes with Go"
	}
	return "as in this repository"
}

func (r *Report) table(b *strings.Builder) {
	b.WriteString("\n## The documents\n")
	for _, g := range r.Groups {
		fmt.Fprintf(b, "\n### %s\n\n| |", g.Name)
		for _, p := range r.Peers {
			fmt.Fprintf(b, " %s |", p.Name)
		}
		b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(r.Peers)) + "\n")
		for _, in := range g.Inputs {
			fmt.Fprintf(b, "| %s |", in.Name)
			for _, c := range r.Cells[in] {
				if c.Wrong {
					fmt.Fprintf(b, " **%s** |", c.Verdict)
				} else {
					fmt.Fprintf(b, " %s |", c.Verdict)
				}
			}
			b.WriteString("\n")
		}
	}
}

// Total counts the cells of one peer.
type Total struct {
	Right, Wrong map[Verdict]int
}

// Totals counts the cells of each peer.
func (r *Report) Totals() []Total {
	totals := make([]Total, len(r.Peers))
	for i := range totals {
		totals[i] = Total{map[Verdict]int{}, map[Verdict]int{}}
	}
	for _, cells := range r.Cells {
		for i, c := range cells {
			if c.Wrong {
				totals[i].Wrong[c.Verdict]++
			} else {
				totals[i].Right[c.Verdict]++
			}
		}
	}
	return totals
}

func (r *Report) totals(b *strings.Builder) {
	b.WriteString("\n## Totals\n\n| |")
	for _, p := range r.Peers {
		fmt.Fprintf(b, " %s |", p.Name)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(r.Peers)) + "\n")
	totals := r.Totals()
	row := func(name string, count func(Total) int) {
		fmt.Fprintf(b, "| %s |", name)
		for _, t := range totals {
			fmt.Fprintf(b, " %d |", count(t))
		}
		b.WriteString("\n")
	}
	row("exact", func(t Total) int { return t.Right[Exact] })
	row("refused, as it should be", func(t Total) int { return t.Right[Refused] })
	for _, v := range []Verdict{Lost, Changed, Refused, Accepted} {
		row("**"+string(v)+"**", func(t Total) int { return t.Wrong[v] })
	}
	row("no type", func(t Total) int { return t.Right[NoType] })
	row("documents", func(Total) int { return len(r.Cells) })
}

func (r *Report) details(b *strings.Builder) {
	b.WriteString("\n## Details\n\nFor each cell in bold, what happened.\n")
	for _, g := range r.Groups {
		fmt.Fprintf(b, "\n### %s\n\n", g.Name)
		for _, in := range g.Inputs {
			if !slices.ContainsFunc(r.Cells[in], func(c Cell) bool { return c.Wrong }) {
				continue
			}
			fmt.Fprintf(b, "- **%s** (%s, %s)\n\n  %s\n\n", in.Name, in.Def, in.Rev, docText(in.Doc))
			for i, c := range r.Cells[in] {
				if c.Wrong {
					fmt.Fprintf(b, "  - %s: %s\n", r.Peers[i].Name, happened(c))
				}
			}
			b.WriteString("\n")
		}
	}
}

// happened is what a cell in bold stands for. The notes on what is lost and changed say so themselves.
func happened(c Cell) string {
	notes := strings.Join(c.Notes, "; ")
	if c.Verdict == Lost || c.Verdict == Changed {
		return notes
	}
	return string(c.Verdict) + ", " + notes
}

// docText is a document in full.
func docText(doc string) string {
	if strings.ToValidUTF8(doc, "") != doc || strings.Contains(doc, "\n") {
		doc = strings.ReplaceAll(strings.Trim(fmt.Sprintf("%+q", doc), `"`), `\"`, `"`)
	}
	return "`" + doc + "`"
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/hostile"
)

// march is the only revision with batches.
const march = "2025-03-26"

// anyText stands for a definition in inputs that are JSON texts, or what looks like one.
const anyText = "any JSON"

// hostileGroups returns the inputs that the tests of the module itself use.
func hostileGroups() []Group {
	var groups []Group
	for _, c := range hostile.Texts() {
		g := Group{Name: "JSON: " + c.Name}
		for _, t := range c.Inputs {
			_, name, _ := strings.Cut(t.Name, "_")
			g.Inputs = append(g.Inputs, Input{Name: name, Rev: june, Def: anyText, Doc: t.Text, Want: want(t.Refusal), Rule: t.Rule})
		}
		groups = append(groups, g)
	}
	groups = append(groups, Group{"JSON: nesting", []Input{
		{Name: "100 arrays", Rev: june, Def: anyText, Doc: hostile.Nested(100)},
		{Name: "500 arrays", Rev: june, Def: anyText, Doc: hostile.Nested(500)},
		{Name: "1000 arrays", Rev: june, Def: anyText, Doc: hostile.Nested(1000), Want: KeepOrRefuse},
		{Name: "10000 arrays", Rev: june, Def: anyText, Doc: hostile.Nested(10000), Want: KeepOrRefuse},
		{Name: "100000 arrays", Rev: june, Def: anyText, Doc: hostile.Nested(100000), Want: KeepOrRefuse},
		{Name: "100000 arrays, not closed", Rev: june, Def: anyText, Doc: strings.Repeat("[", 100000), Want: Refuse, Rule: hostile.EOF},
	}})
	defs := map[hostile.Kind]string{
		hostile.Invalid: "JSONRPCRequest", hostile.Request: "JSONRPCRequest", hostile.Notification: "JSONRPCNotification",
		hostile.Response: "JSONRPCResponse", hostile.ErrorResponse: "JSONRPCError",
	}
	for _, c := range hostile.Messages() {
		g := Group{Name: "Messages: " + lower(c.Name)}
		for _, m := range c.Inputs {
			g.Inputs = append(g.Inputs, Input{Name: m.Name, Rev: november, Def: defs[m.Kind], Doc: m.Text, Want: want(m.Refusal), Rule: m.Rule})
		}
		groups = append(groups, g)
	}
	batches := Group{Name: "Messages: batches"}
	for _, b := range hostile.Batches() {
		if b.Rule == hostile.NoBatch {
			continue // a function that takes messages and batches may take it
		}
		in := Input{Name: b.Name, Rev: march, Def: "JSONRPCBatch", Doc: b.Text, Want: KeepOrRefuse, Rule: b.Rule}
		if b.Rule != hostile.Taken || slices.ContainsFunc(b.Items, func(r hostile.Refusal) bool { return r.Rule != hostile.Taken }) {
			in.Want = Refuse
		}
		batches.Inputs = append(batches.Inputs, in)
	}
	groups = append(groups, batches)
	for _, c := range hostile.Payloads() {
		g := Group{Name: "Payloads: " + lower(c.Name)}
		for _, p := range c.Inputs {
			in := Input{Name: p.Name, Rev: p.Rev, Method: p.Method, Def: p.Def, Doc: p.Text, Want: want(p.Refusal), Rule: p.Rule}
			switch {
			case p.MayRefuse:
				in.Want = KeepOrRefuse
			case p.Faults != nil:
				in.Want = Refuse
			}
			g.Inputs = append(g.Inputs, in)
		}
		groups = append(groups, g)
	}
	return groups
}

func lower(s string) string { return strings.ToLower(s[:1]) + s[1:] }

func want(r hostile.Refusal) Want {
	if r.Rule == hostile.Taken {
		return Keep
	}
	return Refuse
}

// inMessage puts a JSON text into the arguments of a tool call, for libraries that read messages.
func inMessage(in Input) Input {
	in.Def = "JSONRPCRequest"
	in.Doc = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"v":` + in.Doc + `}}}`
	return in
}

// Hostile is what became of hostile inputs.
type Hostile struct {
	Peers  []Peer
	Groups []Group
	Cells  map[Input][]Cell // one for each peer, in their order
}

// RunHostile makes the comparison on hostile inputs.
func RunHostile() *Hostile {
	general := engines()
	h := &Hostile{
		Peers:  slices.Concat(general, []Peer{official(), mcpGo(), mcpwire()}),
		Groups: hostileGroups(),
		Cells:  map[Input][]Cell{},
	}
	for _, g := range h.Groups {
		for _, in := range g.Inputs {
			cells := make([]Cell, len(h.Peers))
			for i, p := range h.Peers {
				cells[i] = attempt(in, p, i < len(general))
			}
			h.Cells[in] = cells
		}
	}
	return h
}

// attempt lets one peer try one input. General says that it is a general engine.
func attempt(in Input, p Peer, general bool) Cell {
	if general {
		shape := in.Rule == hostile.Mistyped || in.Rule == hostile.Integer
		if in.Want == Refuse && !in.Rule.Malformed() && !shape {
			return Cell{Verdict: NoType} // what a message must have is none of an engine's business
		}
		return judge(in, p.Attempt(in))
	}
	if in.Def == anyText {
		in = inMessage(in)
	}
	c := judge(in, p.Attempt(in))
	if p.Else != nil && in.Def != "JSONRPCRequest" {
		c.Notes = append(c.Notes, otherwise(c, judge(in, p.Else(in)))...)
	}
	return c
}

// Markdown writes the page.
func (h *Hostile) Markdown() string {
	var b strings.Builder
	b.WriteString(hostileIntroduction)
	libraries(&b, h.Peers)
	h.summary(&b)
	h.tables(&b)
	h.details(&b)
	return b.String()
}

const hostileIntroduction = `# Hostile inputs

Texts, messages, params and results that decoders are known to get wrong: broken JSON, JSON that programs read in
different ways, messages that are none, and values at the edge of what the schemas admit. Each is decoded and encoded again
by mcpwire, two SDKs and three general JSON engines. What comes out is compared with what went in, as JSON: members in any
order, numbers exactly.

A command writes this page. What it says of a library comes from running that library:

    cd tools/compare && go run . -hostile -write ../../docs/hostile.md

The inputs are those of the package internal/hostile. The tests of this repository decode the same ones with mcpwire in
every way there is, and check the error, its JSON-RPC code, byte offset, line, column and JSON pointer.

A cell says one of:

- **exact**: the input comes out as it went in.
- **lost**: something of it does not come out.
- **changed**: something comes out as something else, or something comes out that was not there.
- **refused**: decoding fails.
- **accepted**: decoding does not fail, though the input breaks JSON, JSON-RPC as the protocol narrows it, or the schema.
- **no type**: the library has nothing to decode the input into, or it is wrong by a rule that is none of the library's
  business. A general engine knows JSON and the structs that it is given, but no JSON-RPC and no schema.

What is wrong is in bold. Right is to give back exactly what is valid, and to refuse what is not. What only a newer
revision may know, batches, which one revision had, base64 that is not as RFC 4648 has it, and nesting beyond 500 levels,
may be refused or given back, but not altered.

RFC 8259 leaves it to the receiver what to do about two members of the same name, about halves of surrogate pairs and about
text that is not UTF-8. Refusing them counts as right here, because programs that choose differently read different
messages. That is a strict reading, and not one that the other libraries promise to follow: an engine that takes the last
of two members, or puts U+FFFD for a byte that is not UTF-8, does what its documentation says. A gateway that lets such
a message through, and a server that reads it in another way, is what goes wrong.

Where an input is any JSON, the engines decode it into any, with numbers as text, and the others as an argument of a tool
call. Where it is a message, params or a result, the engines decode it into structs such as a careful user would write,
with pointers for what may be absent and raw JSON for what is open. What stands around a message is given to the function
that decodes messages, though a transport may have taken some of it off before.
`

// right counts the inputs of a group that a peer gets right, of those that it has a type for.
func (h *Hostile) right(g Group, peer int) (right, of int) {
	for _, in := range g.Inputs {
		c := h.Cells[in][peer]
		if c.Verdict == NoType {
			continue
		}
		of++
		if !c.Wrong {
			right++
		}
	}
	return right, of
}

func (h *Hostile) header(b *strings.Builder, align string) {
	b.WriteString("| |")
	for _, p := range h.Peers {
		fmt.Fprintf(b, " %s |", p.Name)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" "+align+" |", len(h.Peers)) + "\n")
}

func (h *Hostile) summary(b *strings.Builder) {
	b.WriteString("\n## How many are right\n\nOf those that are not **no type**.\n\n")
	h.header(b, "---:")
	sum := make([][2]int, len(h.Peers))
	for _, g := range h.Groups {
		fmt.Fprintf(b, "| %s |", g.Name)
		for i := range h.Peers {
			right, of := h.right(g, i)
			sum[i][0], sum[i][1] = sum[i][0]+right, sum[i][1]+of
			b.WriteString(share(right, of))
		}
		b.WriteString("\n")
	}
	b.WriteString("| all |")
	for _, s := range sum {
		b.WriteString(share(s[0], s[1]))
	}
	b.WriteString("\n")
}

func share(right, of int) string {
	if of == 0 {
		return " |"
	}
	return fmt.Sprintf(" %d of %d |", right, of)
}

// faulty returns the inputs of a group that somebody gets wrong, and the names of the others.
func (h *Hostile) faulty(g Group) (faulty []Input, others []string) {
	for _, in := range g.Inputs {
		if slices.ContainsFunc(h.Cells[in], func(c Cell) bool { return c.Wrong }) {
			faulty = append(faulty, in)
		} else {
			others = append(others, in.Name)
		}
	}
	return faulty, others
}

func (h *Hostile) tables(b *strings.Builder) {
	b.WriteString("\n## The inputs\n")
	for _, g := range h.Groups {
		fmt.Fprintf(b, "\n### %s\n\n", g.Name)
		faulty, others := h.faulty(g)
		if len(faulty) > 0 {
			h.header(b, "---")
		}
		for _, in := range faulty {
			fmt.Fprintf(b, "| %s |", in.Name)
			for _, c := range h.Cells[in] {
				if c.Wrong {
					fmt.Fprintf(b, " **%s** |", c.Verdict)
				} else {
					fmt.Fprintf(b, " %s |", c.Verdict)
				}
			}
			b.WriteString("\n")
		}
		if len(faulty) > 0 && len(others) > 0 {
			b.WriteString("\n")
		}
		if len(others) > 0 {
			fmt.Fprintf(b, "Nobody gets these wrong: %s.\n", strings.Join(others, "; "))
		}
	}
}

func (h *Hostile) details(b *strings.Builder) {
	b.WriteString("\n## Details\n\nFor each cell in bold, what happened.\n")
	for _, g := range h.Groups {
		faulty, _ := h.faulty(g)
		if len(faulty) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n### %s, in detail\n\n", g.Name)
		for _, in := range faulty {
			fmt.Fprintf(b, "- **%s**: %s\n", in.Name, code(in.Doc))
			for i, c := range h.Cells[in] {
				if c.Wrong {
					fmt.Fprintf(b, "  - %s: %s\n", h.Peers[i].Name, happened(c))
				}
			}
		}
	}
}

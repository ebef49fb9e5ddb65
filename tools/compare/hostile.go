package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/hostile"
)

// march is the only revision with batches.
const march = "2025-03-26"

// anyText stands for a definition in inputs that are JSON texts or similar to JSON.
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
			continue // a function that reads both messages and batches may accept it
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

// Hostile is the result of the comparison on hostile inputs.
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

// attempt sends one input through one peer. General reports whether the peer is a general engine.
func attempt(in Input, p Peer, general bool) Cell {
	if general {
		shape := in.Rule == hostile.Mistyped || in.Rule == hostile.Integer
		if in.Want == Refuse && !in.Rule.Malformed() && !shape {
			return Cell{Verdict: NoType} // engines do not know the rules for messages
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

// pages returns the report and its summary.
func (h *Hostile) pages() []page {
	var b strings.Builder
	b.WriteString(hostileIntroduction)
	libraries(&b, h.Peers)
	b.WriteString("\n## Correct results\n\nA cell counts the inputs that the library handles correctly, of those that it has a type for.\n\n")
	h.counts(&b, func(g Group) string { return g.Name })
	h.tables(&b)
	h.details(&b)
	var s strings.Builder
	s.WriteString(hostileSummary)
	h.counts(&s, func(g Group) string {
		kind, _, _ := strings.Cut(g.Name, ":")
		return kind
	})
	s.WriteString(hostileSummaryEnd)
	return []page{{"hostile.md", s.String()}, {"evidence/hostile.md", b.String()}}
}

const hostileSummary = `# Hostile inputs

For developers who choose a library. Broken JSON, JSON that programs read in different ways, invalid messages, and values at the limits of the schemas: this page counts the inputs that each library handles correctly, of those that it has a type for. Correct means that a valid input comes out unchanged and that an invalid one is refused.

`

const hostileSummaryEnd = `
RFC 8259 leaves duplicate names, unpaired surrogates and invalid UTF-8 to the receiver. Here, only refusing them is correct, because programs that treat them differently read different messages. This is a strict reading, which the other libraries do not promise to follow.

[evidence/hostile.md](evidence/hostile.md) lists every input, every verdict and every difference. To generate both pages, run:

    cd tools/compare && go run . ../../docs/reference

The inputs are those of package internal/hostile. The tests of codec, codec/jsonrpc and mcp decode them in every way that mcpwire offers and check the error: its JSON-RPC code, byte offset, line, column and JSON pointer.
`

const hostileIntroduction = `# Hostile inputs in detail

For developers who check [a summary](../hostile.md). JSON texts, messages, params and results that decoders are known to get wrong: broken JSON, JSON that programs read in different ways, invalid messages, and values at the limits of the schemas. mcpwire, two SDKs and three general JSON engines decode each input and encode it again. The output is compared with the input as JSON: members in any order, numbers exactly.

This page is generated by running the libraries. To generate it, run:

    cd tools/compare && go run . ../../docs/reference

The inputs are those of package internal/hostile. The tests of this repository decode them in every way that mcpwire offers and check the error: its JSON-RPC code, byte offset, line, column and JSON pointer.

Each cell has one of these values:

- **exact**: the output equals the input.
- **lost**: a part of the input is missing from the output.
- **changed**: a part of the output differs from the input, or is new.
- **refused**: decoding fails.
- **accepted**: decoding succeeds, although the input violates JSON, the schema, or JSON-RPC as the protocol restricts it.
- **no type**: the library has no type for the input, or the input violates a rule that is outside the library's scope. A general engine knows JSON and the structs that it is given, but neither JSON-RPC nor a schema.

Errors are in bold. A valid input must come out unchanged, and an invalid one must be refused. Either is correct, but a change is not, for input that only a newer revision may allow, batches (which one revision had), base64 that does not follow RFC 4648, and nesting beyond 500 levels.

RFC 8259 leaves duplicate names, unpaired surrogates and invalid UTF-8 to the receiver. Here, only refusing them is correct, because programs that treat them differently read different messages: a gateway lets such a message through, and a server reads it in another way. This is a strict reading, which the other libraries do not promise to follow. An engine that takes the last of two members, or replaces an invalid byte by U+FFFD, works as documented.

If an input is arbitrary JSON, the engines decode it into any, with numbers as text, and the other libraries decode it as an argument of a tool call. If it is a message, params or a result, the engines decode it into structs that a careful user would write, with pointers for optional members and raw JSON for open ones. White space and other text around a message is given to the function that decodes messages, although a transport may remove some of it before.
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

// counts writes a table of correct results, with one row for each run of groups with the same key.
func (h *Hostile) counts(b *strings.Builder, key func(Group) string) {
	type count struct{ right, of int }
	rows, names := map[string][]count{}, []string{}
	for _, g := range h.Groups {
		for _, name := range []string{key(g), "all"} {
			if rows[name] == nil {
				rows[name] = make([]count, len(h.Peers))
				names = append(names, name)
			}
			for i := range h.Peers {
				right, of := h.right(g, i)
				rows[name][i].right += right
				rows[name][i].of += of
			}
		}
	}
	names = append(slices.DeleteFunc(names, func(name string) bool { return name == "all" }), "all")
	h.header(b, "---:")
	for _, name := range names {
		fmt.Fprintf(b, "| %s |", name)
		for _, c := range rows[name] {
			b.WriteString(share(c.right, c.of))
		}
		b.WriteString("\n")
	}
}

func share(right, of int) string {
	if of == 0 {
		return " |"
	}
	return fmt.Sprintf(" %d of %d |", right, of)
}

// faulty returns the inputs of a group that at least one peer gets wrong, and the names of the
// others.
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
			fmt.Fprintf(b, "All libraries handle these correctly: %s.\n", strings.Join(others, "; "))
		}
	}
}

func (h *Hostile) details(b *strings.Builder) {
	b.WriteString("\n## Details\n\nThe reason for each cell in bold.\n")
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

package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/token"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/internal/gen/ir"
	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// Messages is the table of how a protocol's schema writes its messages.
type Messages struct {
	File string `json:"-"`

	// Client and Server are the Go names of the two sides, which may each send requests.
	Client string `json:"client"`
	Server string `json:"server"`
	// Kinds are the kinds of messages. A definition is of the first kind whose suffix it has.
	Kinds []MessageKind `json:"messages"`
	// Receiver says which side gets a message.
	Receiver *Receiver `json:"receiver"`

	own bool // the table is not that of the Model Context Protocol
}

// MessageKind is one kind of messages. The definition of a message either describes the whole
// message, with the name of the method as a constant member, or the params alone, with the name of
// the method as the value of a keyword.
type MessageKind struct {
	Kind   string `json:"kind"`   // request or notification
	Suffix string `json:"suffix"` // of the names of definitions

	Member  string `json:"member"`  // the member with the name of the method
	Params  string `json:"params"`  // the member with the params
	Keyword string `json:"keyword"` // the keyword with the name of the method

	// Response is what the definition of the response has in place of Suffix, and Result the member
	// with the result. Without Result, the definition is the result.
	Response string `json:"response"`
	Result   string `json:"result"`

	From string `json:"from"` // the side that sends it: client, server or both
}

// Receiver is a keyword whose value is the side that gets a message.
type Receiver struct {
	Keyword string            `json:"keyword"`
	Sides   map[string]string `json:"sides"` // client, server or both, by the values of Keyword
}

// protocolMessages is the table of the Model Context Protocol.
func protocolMessages() *Messages {
	return &Messages{
		Client: "Client", Server: "Server",
		Kinds: []MessageKind{
			{Kind: "request", Suffix: "Request", Member: "method", Params: "params", Response: "Result"},
			{Kind: "notification", Suffix: "Notification", Member: "method", Params: "params"},
		},
	}
}

// ParseMessages reads a table. An empty src is that of the Model Context Protocol.
func ParseMessages(file string, src []byte) (*Messages, error) {
	if len(src) == 0 {
		return protocolMessages(), nil
	}
	m := &Messages{File: file, Client: "Client", Server: "Server", own: true}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, m.errorf("", "not a table of messages: %s", load.Cause(err))
	}
	for _, name := range []string{m.Client, m.Server} {
		if !token.IsIdentifier(name) || !token.IsExported(name) {
			return nil, m.errorf("", "%q is not an exported Go identifier", name)
		}
	}
	if m.Client == m.Server {
		return nil, m.errorf("", "both sides have the name %q", m.Client)
	}
	if len(m.Kinds) == 0 {
		return nil, m.errorf("/messages", "there is no kind of messages")
	}
	for i, k := range m.Kinds {
		at := fmt.Sprintf("/messages/%d", i)
		switch {
		case k.Kind != "request" && k.Kind != "notification":
			return nil, m.errorf(at, "kind is %q; it must be request or notification", k.Kind)
		case k.Suffix == "":
			return nil, m.errorf(at, `a kind of messages needs "suffix"`)
		case (k.Member == "") == (k.Keyword == ""):
			return nil, m.errorf(at, `a kind of messages needs either "member" or "keyword", for the name of the method`)
		case k.Keyword != "" && k.Params != "":
			return nil, m.errorf(at, `a definition with the name of the method in a keyword is the params, so that there is no "params"`)
		case (k.Kind == "request") != (k.Response != ""):
			return nil, m.errorf(at, `requests need "response", and notifications have none`)
		case k.From != "" && sideOf[k.From] == 0:
			return nil, m.errorf(at, "from is %q; it must be client, server or both", k.From)
		}
	}
	if m.Receiver != nil {
		if m.Receiver.Keyword == "" {
			return nil, m.errorf("/receiver", `the receiver needs "keyword"`)
		}
		for value, side := range m.Receiver.Sides {
			if sideOf[side] == 0 {
				return nil, m.errorf("/receiver/sides", "%q is %q; it must be client, server or both", value, side)
			}
		}
	}
	return m, nil
}

var sideOf = map[string]ir.Direction{"client": ir.FromClient, "server": ir.FromServer, "both": ir.FromBoth}

func (m *Messages) errorf(pointer, format string, args ...any) error {
	return &load.Error{File: m.File, Pointer: pointer, Message: fmt.Sprintf(format, args...)}
}

// Marks returns the keywords to which the table gives a meaning.
func (m *Messages) Marks() (keywords []string) {
	for _, k := range m.Kinds {
		if k.Keyword != "" {
			keywords = append(keywords, k.Keyword)
		}
	}
	if m.Receiver != nil {
		keywords = append(keywords, m.Receiver.Keyword)
	}
	return keywords
}

// AddParams adds to each document a definition "NAME/params" for the params of every message that
// has them in a member. Revisions that define the params inside the message can then check them on
// their own. It does the same for the results of methods.
func (m *Messages) AddParams(docs []*load.Document, methods []*ir.Method) {
	for _, doc := range docs {
		for _, method := range methods {
			response, ok := strings.CutSuffix(method.ResultDef, "/result")
			if !ok || doc.Defs[response] == nil {
				continue
			}
			s := &load.Schema{Doc: doc, Pointer: doc.Defs[response].Pointer, Types: []string{"object"}}
			if method.ResultMember != "" {
				s.AllOf = membersOf(doc.Defs[response], method.ResultMember)
			}
			doc.Defs[method.ResultDef] = s
		}
		for _, name := range doc.Names() {
			s := doc.Defs[name]
			k := m.kindOf([]string{name})
			if k == nil || k.Params == "" {
				continue
			}
			switch all := membersOf(s, k.Params); len(all) {
			case 0:
			case 1:
				doc.Defs[name+"/params"] = all[0]
			default:
				doc.Defs[name+"/params"] = &load.Schema{Doc: doc, Pointer: s.Pointer, AllOf: all}
			}
		}
	}
}

// membersOf lists the schemas of the member called name in s and, through allOf, in its parts.
func membersOf(s *load.Schema, name string) []*load.Schema {
	var all []*load.Schema
	if s.Ref != "" {
		all = append(all, membersOf(s.Doc.Defs[s.Ref], name)...)
	}
	if p := s.Property(name); p != nil {
		all = append(all, p)
	}
	for _, sub := range s.AllOf {
		all = append(all, membersOf(sub, name)...)
	}
	return all
}

// kindOf returns the kind of a definition with the given names, or nil.
func (m *Messages) kindOf(names []string) *MessageKind {
	for i, k := range m.Kinds {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, k.Suffix) }) {
			return &m.Kinds[i]
		}
	}
	return nil
}

// methodOf returns the name of the method of a message of kind k, or "".
func (k *MessageKind) methodOf(n merge.Node) string {
	if k.Keyword != "" {
		var name string
		_ = json.Unmarshal(n.At().Marks[k.Keyword], &name) // anything else is no name
		return name
	}
	o, ok := n.(*merge.Object)
	if !ok || o.Member(k.Member) == nil {
		return ""
	}
	e, ok := o.Member(k.Member).Node.(*merge.Enum)
	if !ok || len(e.Values) != 1 {
		return ""
	}
	return e.Values[0].Text()
}

// from returns the sides that send the message with the definition n, or 0 if the table does not say.
func (m *Messages) from(k *MessageKind, n merge.Node) (ir.Direction, error) {
	if m.Receiver != nil {
		if raw, ok := n.At().Marks[m.Receiver.Keyword]; ok {
			var value string
			_ = json.Unmarshal(raw, &value) // anything else is no side
			side := sideOf[m.Receiver.Sides[value]]
			if side == 0 {
				return 0, n.At().Errorf("%s is %s, and the table of messages has no side for it", m.Receiver.Keyword, raw)
			}
			return side.Other(), nil
		}
	}
	return sideOf[k.From], nil
}

// reservedNames are the names that the generated package declares for itself.
func (m *Messages) reservedNames() []string {
	names := slices.Clone(reserved)
	for _, side := range []string{m.Client, m.Server} {
		names = append(names, "From"+side, "Dispatch"+side, "Dispatch"+side+"Notification", side+"Handler", side+"NotificationHandler",
			"Unimplemented"+side+"Handler", "Unimplemented"+side+"NotificationHandler", "To"+side, "Notify"+side)
	}
	return names
}

// emptyResult makes the result of m a new struct without members, because the schema does not state
// one.
func (b *builder) emptyResult(m *ir.Method, def *merge.Object) error {
	name := b.unowned(m.GoName+"Result", "", def)
	if err := b.claim(name, "", def); err != nil {
		return err
	}
	st := &ir.Struct{GoName: name, In: ir.Revs(def.In), Doc: ir.Doc{Text: name + " is a result without members of its own."}}
	b.objects[st] = merge.NewObject(def.At(), def.In)
	b.pkg.Structs = append(b.pkg.Structs, st)
	m.Result, m.ResultDef, m.ResultMember = st, m.Def+"/result", ""
	return nil
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/codec/wire/jsonschema"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/schema"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/split"
)

func decode() command {
	return command{
		name:  "decode",
		args:  "[-rev REV] [-as TYPE] [-method METHOD] [-v] [FILE...]",
		short: "decode messages or values, check them and encode them again",
		help: `
Reads JSON documents, one after another, from the files or from standard input. It decodes each
into its Go type and writes it to standard output again, one per line. Faults are reported on
standard error as FILE:LINE:COL: /json/pointer: message. A document that cannot be decoded is not
written.

By default a document is a JSON-RPC message. The type of a response follows from the request with
the same id earlier in the file; for a response without a request, set -method to the method of the
request. With -as, a document is a value of a definition in the schemas, such as CallToolResult, or
ext/tasks.Task for a definition of the Tasks extension.

With -rev, documents are also checked against the schema of that revision. Only revision 2025-03-26
has batches.

Exit status: 0 on success, 1 if a document has a fault, 2 for invalid usage.

Example:

  echo '{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"t1"}}' |
    mcpwire decode -rev 2025-11-25 -v
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			d := &decoder{}
			flags.StringVar(&d.rev, "rev", "", "check against the schema of revision `REV`")
			flags.StringVar(&d.as, "as", "", "decode values of type `TYPE` instead of JSON-RPC messages")
			flags.StringVar(&d.method, "method", "", "take `METHOD` as the method of responses without a request")
			flags.BoolVar(&d.verbose, "v", false, "write the Go type of the payload and a tab before each document")
			return func(ctx context.Context, s streams, args []string) error {
				if err := d.check(); err != nil {
					return err
				}
				d.streams = s
				return d.files(ctx, args)
			}
		},
	}
}

// decoder is the command decode with its flags.
type decoder struct {
	streams
	rev     string
	as      string
	method  string
	verbose bool

	ext    bool // -as names a type of the Tasks extension
	faults bool // a document had a fault
}

const extPrefix = "ext/tasks."

// check validates the flags.
func (d *decoder) check() error {
	revisions := append(schema.Revisions(), schema.Extensions()...)
	if d.rev != "" && !slices.Contains(revisions, d.rev) {
		return usagef("-rev %s: unknown revision; the revisions are %s", d.rev, strings.Join(revisions, ", "))
	}
	if d.as != "" && d.method != "" {
		return usagef("-as and -method cannot be combined: -as is for values, -method for messages")
	}
	if name, ok := strings.CutPrefix(d.as, extPrefix); ok {
		d.ext = true
		if tasks.New(name) == nil && mcp.New(name) == nil {
			return usagef("-as %s: unknown definition; the definitions are %s", d.as, strings.Join(tasks.Definitions(), ", "))
		}
		if d.rev != "" && !d.extension() {
			return usagef("-as %s with -rev %s: the Tasks extension belongs to revision 2026-07-28", d.as, d.rev)
		}
	} else if d.as != "" && mcp.New(d.as) == nil {
		return usagef("-as %s: unknown definition%s", d.as, similar(d.as, mcp.Definitions()))
	}
	if d.method != "" {
		_, core := mcp.LookupMethod(d.method)
		if _, ext := tasks.LookupMethod(d.method); !core && !ext {
			var names []string
			for _, m := range mcp.Methods() {
				names = append(names, m.Name)
			}
			return usagef("-method %s: unknown method%s", d.method, similar(d.method, names))
		}
	}
	return nil
}

// similar suggests a name that differs only in case or contains name.
func similar(name string, names []string) string {
	for _, n := range names {
		if strings.EqualFold(n, name) {
			return "; did you mean " + n + "?"
		}
	}
	for _, n := range names {
		if strings.Contains(strings.ToLower(n), strings.ToLower(name)) {
			return "; did you mean " + n + "?"
		}
	}
	return ""
}

func (d *decoder) files(ctx context.Context, names []string) error {
	if len(names) == 0 {
		if err := d.stream(ctx, "<stdin>", d.in); err != nil {
			return err
		}
	}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = d.stream(ctx, name, f)
		f.Close()
		if err != nil {
			return err
		}
	}
	if d.faults {
		return errFaults
	}
	return nil
}

// stream decodes the documents of one file.
func (d *decoder) stream(ctx context.Context, name string, r io.Reader) error {
	in := split.NewScanner(r, wire.DefaultSize)
	talk := d.conversation()
	for ctx.Err() == nil {
		doc, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, doc.Line, err)
		}
		rep := &report{decoder: d, file: name, doc: doc}
		switch {
		case d.as != "":
			err = d.value(rep)
		case d.rev == "2025-03-26" && jsonrpc.IsBatch(doc.Text):
			err = d.batch(rep, talk)
		default:
			err = d.message(rep, talk)
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// value decodes a bare value.
func (d *decoder) value(rep *report) error {
	name := strings.TrimPrefix(d.as, extPrefix)
	var v codec.Value = mcp.New(name)
	check := func() error { return mcp.Validate(mcp.Revision(d.rev), name, rep.doc.Text) }
	if d.ext {
		if own := tasks.New(name); own != nil {
			v = own
		}
		check = func() error { return tasks.Validate(tasks.RevisionExtTasks, name, rep.doc.Text) }
	}
	err := codec.Unmarshal(rep.doc.Text, v)
	if d.rev != "" {
		rep.add(check())
	}
	rep.add(err)
	if err != nil {
		return nil
	}
	return d.write(rep, v, v)
}

// message decodes a JSON-RPC message.
func (d *decoder) message(rep *report, talk *mcp.Conversation) error {
	if d.method != "" {
		d.expect(rep.doc.Text, talk)
	}
	t, err := talk.Decode(rep.doc.Text)
	if d.rev != "" && (err == nil || t.Kind == jsonrpc.KindRequest || t.Kind == jsonrpc.KindNotification) {
		d.validate(rep, "", t)
	}
	rep.add(err)
	if err != nil {
		return nil
	}
	return d.write(rep, &t.Message, payload(t))
}

// expect tells the conversation that a response without a request belongs to the method given by
// -method.
func (d *decoder) expect(text []byte, talk *mcp.Conversation) {
	if m, err := jsonrpc.Parse(text); err == nil && m.Kind == jsonrpc.KindResponse && !talk.Expects(m.ID) {
		talk.Expect(m.ID, d.method)
	}
}

// batch decodes a batch. It writes the batch if all messages can be decoded.
func (d *decoder) batch(rep *report, talk *mcp.Conversation) error {
	items, err := jsonrpc.ParseBatch(rep.doc.Text)
	if err != nil {
		rep.add(err)
		return nil
	}
	whole := true
	var messages []jsonrpc.Message
	for i, item := range items {
		if item.Err != nil {
			rep.add(item.Err)
			whole = false
			continue
		}
		at := fmt.Sprintf("/%d", i)
		t, err := talk.Next(item.Message)
		d.validate(rep, at, t)
		if err != nil {
			rep.addBelow(at+payloadPlace(t), err)
			whole = false
		}
		messages = append(messages, t.Message)
	}
	if !whole {
		return nil
	}
	text, err := jsonrpc.AppendBatch(nil, messages)
	if err != nil {
		rep.addBelow("", err)
		return nil
	}
	return d.line("[]jsonrpc.Message", text)
}

func payloadPlace(t mcp.Typed) string {
	if t.Kind == jsonrpc.KindResponse {
		return "/result"
	}
	return "/params"
}

// validate checks the envelope and the payload of a message against the revision. At is the
// pointer of the message in the document.
func (d *decoder) validate(rep *report, at string, t mcp.Typed) {
	rev := mcp.Revision(d.rev)
	if d.rev == extTasks {
		rev = mcp.Revision20260728 // the revision that the extension belongs to
	}
	call := t.Kind == jsonrpc.KindRequest || t.Kind == jsonrpc.KindNotification
	if call && !d.has(rev, t.Method) {
		rep.addAt(at+"/method", fmt.Sprintf("revision %s has no method %q", d.rev, t.Method))
		return
	}
	envelope := map[jsonrpc.Kind][]string{
		jsonrpc.KindRequest:       {"JSONRPCRequest"},
		jsonrpc.KindNotification:  {"JSONRPCNotification"},
		jsonrpc.KindResponse:      {"JSONRPCResultResponse", "JSONRPCResponse"},
		jsonrpc.KindErrorResponse: {"JSONRPCErrorResponse", "JSONRPCError"},
	}[t.Kind]
	if text, err := t.Message.AppendJSON(nil); err == nil {
		for _, name := range envelope {
			if faults, known := errors.AsType[jsonschema.Faults](mcp.Validate(rev, name, text)); known {
				rep.addBelow(at, faults)
				break
			}
		}
	}
	switch p := t.Payload.(type) {
	case mcp.Value:
		rep.addBelow(at+payloadPlace(t), p.Validate(rev))
	case tasks.Value:
		rep.addBelow(at+payloadPlace(t), p.Validate(tasks.RevisionExtTasks))
	}
	if call && t.Params == nil && t.Payload == nil && mcp.ValidateParams(rev, t.Method, nil) != nil && !d.ofExtension(t.Method) {
		rep.addAt(at, `required member "params" is missing`)
	}
}

// has reports whether rev or the Tasks extension has the method.
func (d *decoder) has(rev mcp.Revision, method string) bool {
	m, ok := mcp.LookupMethod(method)
	return ok && m.In(rev) || d.ofExtension(method)
}

// ofExtension reports whether the method may belong to the Tasks extension.
func (d *decoder) ofExtension(method string) bool {
	_, ok := tasks.LookupMethod(method)
	return ok && d.extension()
}

const extTasks = "ext-tasks"

// extension reports whether messages may belong to the Tasks extension.
func (d *decoder) extension() bool { return d.rev == "2026-07-28" || d.rev == extTasks }

// conversation returns a new conversation, with the methods of the extension unless the revision
// does not have it.
func (d *decoder) conversation() *mcp.Conversation {
	if d.rev != "" && !d.extension() {
		return new(mcp.Conversation)
	}
	return &mcp.Conversation{Params: tasks.ReadParams, Result: tasks.ReadResult}
}

// payload returns the value of the message whose Go type the flag -v prints.
func payload(t mcp.Typed) any {
	switch {
	case t.Payload != nil:
		return t.Payload
	case t.Error != nil:
		return t.Error
	}
	return &t.Message
}

func (d *decoder) write(rep *report, v codec.Encoder, named any) error {
	text, err := codec.Marshal(v)
	if err != nil {
		rep.addBelow("", err)
		return nil
	}
	if h, ok := named.(interface{ Unwrap() any }); ok {
		named = h.Unwrap()
	}
	return d.line(fmt.Sprintf("%T", named), text)
}

func (d *decoder) line(goType string, text []byte) error {
	if d.verbose {
		text = append([]byte(goType+"\t"), text...)
	}
	_, err := d.out.Write(append(text, '\n'))
	return err
}

// report prints the faults of one document, each once.
type report struct {
	*decoder
	file string
	doc  split.Document
	seen map[string]bool
}

// add reports an error with positions in the document. It does nothing if err is nil.
func (r *report) add(err error) {
	for _, e := range places(err) {
		r.print(int(e.Offset), e.Pointer, e.Err.Error())
	}
}

// addBelow reports an error about the value at a pointer of the document, or about a copy of that
// value. It ignores offsets in the error; pointers in the error are relative to the value. It does
// nothing if err is nil.
func (r *report) addBelow(at string, err error) {
	for _, e := range places(err) {
		r.addAt(at+e.Pointer, e.Err.Error())
	}
}

// places returns the errors that err consists of. An error without a place is about the document.
func places(err error) []*codec.Error {
	if err == nil {
		return nil
	}
	if faults, ok := errors.AsType[jsonschema.Faults](err); ok {
		return faults
	}
	if e, ok := errors.AsType[*codec.Error](err); ok {
		return []*codec.Error{e}
	}
	return []*codec.Error{{Err: err}}
}

func (r *report) addAt(pointer, message string) {
	offset, _ := codec.Locate(r.doc.Text, pointer)
	r.print(offset, pointer, message)
}

func (r *report) print(offset int, pointer, message string) {
	r.faults = true
	line, column := r.doc.Position(offset)
	text := fmt.Sprintf("%s:%d:%d: %s: %s\n", r.file, line, column, oneLine(pointer), oneLine(message))
	if !r.seen[text] {
		if r.seen == nil {
			r.seen = map[string]bool{}
		}
		r.seen[text] = true
		fmt.Fprint(r.err, text)
	}
}

// oneLine escapes line breaks and control characters like a Go string.
func oneLine(s string) string {
	return printable.Line(strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(s))
}

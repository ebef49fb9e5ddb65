// Package joined opens a session of this module beside the session of another SDK's client, over
// the connection of that client. The server sees one client.
package joined

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/mcp/ext/tasks"
	"github.com/mcpwire/mcpwire/runtime/internal/ability"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Options configures a [Conn].
type Options struct {
	// Send sends a message to the server. If it is nil, the messages are written to Over.
	Send func(ctx context.Context, m transport.Message) error

	// Over is a connection that only the session uses, or nil. The Conn owns it.
	Over transport.Conn

	// Initialize is the result of initialize that the other client has received. Conn responds to
	// initialize with it, and does not send the messages of the handshake. If it is nil, Conn sends
	// these messages like all others.
	Initialize json.RawMessage

	// Close, if set, closes the resources that Send uses.
	Close func()
}

// Conn is the connection of the joined session. The messages of the server come from [Conn.Take]
// and [Conn.Deliver].
type Conn struct {
	options Options
	prefix  string // of the ids of the session's requests; no other Conn has it
	in      chan received
	done    chan struct{} // closed by Close
	close   func()

	mu       sync.Mutex
	requests map[jsonrpc.ID]bool // requests of the server to which the session has not responded
}

type received struct {
	m   transport.Message
	err error
}

// New returns a connection.
func New(o Options) *Conn {
	c := &Conn{options: o, prefix: "mcpwire-" + rand.Text()[:8] + "-", in: make(chan received, 64), done: make(chan struct{}), requests: map[jsonrpc.ID]bool{}}
	c.close = sync.OnceFunc(func() {
		close(c.done)
		if o.Over != nil {
			o.Over.Close()
		}
		if o.Close != nil {
			o.Close()
		}
	})
	if o.Over == nil {
		return c
	}
	c.options.Send = o.Over.Write
	if p, ok := o.Over.(ability.Pusher); !ok || !p.Push(o.Over, c.Deliver) {
		go c.pump() // ends with Over
	}
	return c
}

// pump delivers the messages and errors that it reads from Over.
func (c *Conn) pump() {
	for {
		m, err := c.read()
		c.Deliver(m, err)
		select {
		case <-c.done:
			return
		default:
		}
		if err != nil && !temporary(err) {
			return
		}
	}
}

// read reads a message from Over.
func (c *Conn) read() (m transport.Message, err error) {
	defer boundary.Catch(&err)
	return c.options.Over.Read()
}

// temporary reports whether a connection stays open after an error of Read.
func temporary(err error) bool {
	_, rejected := errors.AsType[*transport.MessageError](err)
	_, undelivered := errors.AsType[*transport.DeliveryError](err)
	_, lost := errors.AsType[*transport.SessionLostError](err)
	return rejected || undelivered || lost
}

// Unwrap implements [transport.Unwrapper].
func (c *Conn) Unwrap() transport.Conn { return c.options.Over }

// Read returns the next message for the session.
func (c *Conn) Read() (transport.Message, error) {
	select {
	case r := <-c.in:
		return r.m, r.err
	case <-c.done:
		return transport.Message{}, transport.ErrClosed
	}
}

// Write sends a message of the session.
func (c *Conn) Write(ctx context.Context, m transport.Message) error {
	select {
	case <-c.done:
		return transport.ErrClosed
	default:
	}
	if c.options.Initialize != nil {
		switch envelope, _ := m.Parse(); envelope.Method {
		case mcp.MethodInitialize:
			answer := jsonrpc.NewResponse(envelope.ID, c.options.Initialize)
			return c.forward(&answer)
		case mcp.MethodNotificationsInitialized:
			return nil
		}
	}
	return c.options.Send(ctx, m)
}

// request is the Reply of a request of the server that the session has taken.
type request struct {
	c  *Conn
	id jsonrpc.ID
}

func (r *request) Send(ctx context.Context, text []byte) error {
	return r.c.Write(ctx, transport.Message{Text: text})
}

func (r *request) Answer(ctx context.Context, text []byte, _ *jsonrpc.Error) error {
	r.c.mu.Lock()
	delete(r.c.requests, r.id)
	r.c.mu.Unlock()
	if text == nil {
		return nil
	}
	return r.Send(ctx, text)
}

// Close ends the connection, but not that of the other client.
func (c *Conn) Close() error {
	c.close()
	return nil
}

// Deliver passes a message or an error to Read. It blocks while the session does not read.
func (c *Conn) Deliver(m transport.Message, err error) {
	select {
	case c.in <- received{m, err}:
	case <-c.done:
	}
}

// forward delivers a message.
func (c *Conn) forward(m *jsonrpc.Message) error {
	text, err := m.AppendJSON(nil)
	if err != nil {
		return err
	}
	out := transport.Message{Text: text}
	if m.Kind == jsonrpc.KindRequest {
		out.Reply = &request{c, m.ID}
	}
	c.Deliver(out, nil)
	return nil
}

// Take passes a message of the server to the session if the session needs it. It returns true if
// the other client must not receive the message: a response to a request of the session, a request
// or a notification about a task, or a notification of a subscription of the session.
func (c *Conn) Take(m *jsonrpc.Message) bool {
	taken, copied := c.classify(m)
	if taken || copied {
		c.forward(m) // m was parsed, so it can be encoded
	}
	return taken
}

// classify reports whether only the session receives a message, and whether both clients receive
// it.
func (c *Conn) classify(m *jsonrpc.Message) (taken, copied bool) {
	switch m.Kind {
	case jsonrpc.KindResponse, jsonrpc.KindErrorResponse:
		return c.Owns(m.ID), false
	case jsonrpc.KindRequest:
		if RelatedTask(m.Params) == "" {
			return false, false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests[m.ID] = true
		return true, false
	}
	switch m.Method {
	case mcp.MethodNotificationsTasksStatus, tasks.MethodNotificationsTasks:
		return true, false
	case mcp.MethodNotificationsProgress, mcp.MethodNotificationsToolsListChanged:
		copied = true // the other client may have requested the message, too
	case mcp.MethodNotificationsCancelled:
		var p mcp.CancelledNotificationParams
		if codec.Unmarshal(m.Params, &p) == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			taken = c.requests[p.RequestID]
			delete(c.requests, p.RequestID) // the session does not respond to it any more
			return taken, false
		}
	}
	meta, _ := codec.Member(m.Params, "_meta")
	if raw, ok := codec.Member(meta, modern.MetaSubscription); ok {
		var id jsonrpc.ID
		if codec.ReadPart(raw, func(r *wire.Reader) { id.DecodeJSON(r) }) == nil && c.Owns(id) {
			return true, false
		}
	}
	return false, copied
}

// Owns reports whether an id has the prefix of the session's requests.
func (c *Conn) Owns(id jsonrpc.ID) bool {
	text, ok := id.Text()
	return ok && strings.HasPrefix(text, c.prefix)
}

// RelatedTask returns the id of the task that a message with params belongs to, or "".
func RelatedTask(params json.RawMessage) string {
	meta, _ := codec.Member(params, "_meta")
	related, _ := codec.Member(meta, taskrules.RelatedTask)
	return text(codec.Member(related, "taskId"))
}

// CreatedTask returns the id of the task that the result of a tools/call has created, or "".
func CreatedTask(result json.RawMessage) string {
	if !bytes.Contains(result, taskIDMember) { // most results, which may be long
		return ""
	}
	if kind, ok := codec.Member(result, "resultType"); ok && string(kind) == `"`+tasks.ResultTask+`"` {
		return text(codec.Member(result, "taskId"))
	}
	if _, ok := codec.Member(result, "content"); ok {
		return ""
	}
	created, _ := codec.Member(result, "task")
	return text(codec.Member(created, "taskId"))
}

var taskIDMember = []byte(`"taskId"`)

// text returns the value of a member that is a string, or "".
func text(raw json.RawMessage, ok bool) (s string) {
	if !ok || codec.ReadPart(raw, func(r *wire.Reader) { s = r.Text() }) != nil {
		return ""
	}
	return s
}

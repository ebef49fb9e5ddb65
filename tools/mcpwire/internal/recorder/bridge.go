package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// bridge forwards messages between a client and a server that use different transports.
type bridge struct {
	session        *trace.Session
	client, server transport.Conn

	mu      sync.Mutex
	open    []pending     // pending requests of the client, the oldest first
	replies bool          // requests of the client have Replies: other responses are dropped
	idle    chan struct{} // closed when no request is pending; nil if there is no waiter
}

// pending is a request of the client.
type pending struct {
	id    jsonrpc.ID
	token string          // the progress token as JSON; "" for none
	reply transport.Reply // nil for the connection
}

func newBridge(session *trace.Session, client, server transport.Conn) *bridge {
	return &bridge{session: session, client: client, server: server}
}

// run forwards messages until either side or ctx ends, and then closes both connections. A client
// that has closed its output may still wait for responses.
func (b *bridge) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	closing := make(chan struct{})
	go func() { // ends with ctx
		defer close(closing)
		<-ctx.Done()
		b.server.Close()
		b.client.Close()
	}()
	clientDone := make(chan error, 1)
	go func() { // ends when the client ends or is closed
		err := b.fromClient(ctx)
		if err == io.EOF {
			err = b.drainServer(ctx)
		} else {
			cancel()
		}
		clientDone <- err
	}()
	err := b.fromServer(ctx)
	cancel()
	<-closing
	closed := errors.Join(b.server.Close(), b.client.Close())
	if err == nil { // otherwise the other error has the same cause
		err = closed
	}
	return errors.Join(err, <-clientDone)
}

// drainServer ends the server after its last response.
func (b *bridge) drainServer(ctx context.Context) error {
	if half, ok := transport.As[transport.HalfCloser](b.server); ok {
		half.CloseWrite() // fails once the server is closed
		return nil
	}
	b.waitIdle(ctx)
	b.server.Close() // run reports the error
	return nil
}

// waitIdle waits until no request is pending.
func (b *bridge) waitIdle(ctx context.Context) {
	b.mu.Lock()
	idle := make(chan struct{})
	b.idle = idle
	b.signalIdle()
	b.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// signalIdle wakes the waiter if no request is pending. It must be called with mu held.
func (b *bridge) signalIdle() {
	if len(b.open) == 0 && b.idle != nil {
		close(b.idle)
		b.idle = nil
	}
}

// ignoreEnd returns err, or nil if err only means that the connection has ended.
func ignoreEnd(err error) error {
	if err == io.EOF || errors.Is(err, transport.ErrClosed) {
		return nil
	}
	return err
}

// fromClient forwards messages of the client. It returns [io.EOF] if the client closes its output,
// and otherwise the error of the connection.
func (b *bridge) fromClient(ctx context.Context) error {
	for {
		m, err := b.client.Read()
		if err == nil {
			b.session.Message(mcp.FromClient, m.Text)
			cancelled, isInitialize := b.register(m)
			err = b.server.Write(ctx, transport.Message{Text: m.Text})
			if cancelled != nil {
				cancelled.Answer(ctx, nil, nil) // fails if the connection ends
			}
			if _, stream := transport.As[transport.HalfCloser](b.server); isInitialize && !stream && err == nil {
				b.waitIdle(ctx) // later messages belong to the session that the response names
			}
		}
		if err = b.handleError(ctx, err); err != nil {
			if err == io.EOF {
				return err
			}
			return ignoreEnd(err)
		}
	}
}

// fromServer forwards messages of the server until its connection ends.
func (b *bridge) fromServer(ctx context.Context) error {
	for {
		m, err := b.server.Read()
		if err == nil {
			b.session.Message(mcp.FromServer, m.Text)
			err = b.toClient(ctx, m.Text)
		}
		if err = b.handleError(ctx, err); err != nil {
			return ignoreEnd(err)
		}
	}
}

// handleError returns err if the session cannot continue. It records an error that concerns a
// single message, and responds to a request that was not delivered.
func (b *bridge) handleError(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*transport.MessageError](err); ok {
		b.session.Event(refused.Error())
		return nil
	}
	lost, ok := errors.AsType[*transport.DeliveryError](err)
	if !ok {
		return err
	}
	b.session.Event(lost.Error())
	if lost.ID.IsZero() {
		return nil
	}
	answer := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: lost.Error()}
	if status, ok := errors.AsType[*httpclient.StatusError](lost.Err); ok && status.RPC != nil {
		answer = status.RPC
	}
	m := jsonrpc.NewErrorResponse(lost.ID, answer)
	text, err := codec.Marshal(&m)
	if err != nil {
		return err
	}
	b.session.Message(mcp.FromServer, text)
	return b.toClient(ctx, text)
}

// register registers a request of the client. If the message cancels a request, which then gets no
// response, it returns the Reply of that request. It also reports whether the message is initialize.
func (b *bridge) register(received transport.Message) (cancelled transport.Reply, isInitialize bool) {
	m, err := jsonrpc.Parse(received.Text, codec.NoCopy())
	if err != nil {
		return nil, false
	}
	switch {
	case m.Kind == jsonrpc.KindRequest:
		var p struct {
			Meta struct {
				Token json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		}
		json.Unmarshal(m.Params, &p) // the server reports invalid params
		b.mu.Lock()
		defer b.mu.Unlock()
		b.open = append(b.open, pending{m.ID, string(p.Meta.Token), received.Reply})
		b.replies = b.replies || received.Reply != nil
	case m.Method == mcp.MethodNotificationsCancelled:
		var p mcp.CancelledNotificationParams
		if codec.Unmarshal(m.Params, &p) == nil {
			cancelled, _ = b.remove(p.RequestID)
		}
	}
	return cancelled, m.Kind == jsonrpc.KindRequest && m.Method == mcp.MethodInitialize
}

// remove removes a request. It returns its Reply, or nil if it has none or is unknown. dropped is true
// if its response must not be sent.
func (b *bridge) remove(id jsonrpc.ID) (reply transport.Reply, dropped bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = slices.DeleteFunc(b.open, func(p pending) bool {
		if p.id == id {
			reply = p.reply
		}
		return p.id == id
	})
	b.signalIdle()
	return reply, reply == nil && b.replies
}

// toClient sends a message of the server with the Reply of the request that it belongs to. Over
// standard output, requests and log messages of a server do not name one; they are sent with the
// newest request.
func (b *bridge) toClient(ctx context.Context, text []byte) error {
	m, err := jsonrpc.Parse(text, codec.NoCopy())
	var of transport.Reply
	switch {
	case err != nil:
	case m.Kind == jsonrpc.KindResponse || m.Kind == jsonrpc.KindErrorResponse:
		var dropped bool
		if of, dropped = b.remove(m.ID); of != nil {
			return of.Answer(ctx, text, m.Error)
		} else if dropped {
			return nil
		}
	case m.Method == mcp.MethodNotificationsProgress:
		var p struct {
			Token json.RawMessage `json:"progressToken"`
		}
		json.Unmarshal(m.Params, &p) // the client reports invalid params
		of = b.find(func(r pending) bool { return r.token == string(p.Token) })
	case m.Kind == jsonrpc.KindRequest || m.Method == mcp.MethodNotificationsMessage:
		of = b.find(func(pending) bool { return true })
	}
	if of != nil {
		if err := of.Send(ctx, text); err != transport.ErrAnswered {
			return err
		}
	}
	return b.client.Write(ctx, transport.Message{Text: text})
}

// find returns the Reply of the newest pending request that matches, or nil.
func (b *bridge) find(wanted func(pending) bool) transport.Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range slices.Backward(b.open) {
		if wanted(p) {
			return p.reply
		}
	}
	return nil
}

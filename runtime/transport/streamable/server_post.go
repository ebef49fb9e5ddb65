package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/engine"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/guard"
)

// The header fields of the protocol, in the canonical form of package http.
const (
	headerSession  = "Mcp-Session-Id"
	headerProtocol = "Mcp-Protocol-Version"
)

// posted is a POST and its content. Most have one message.
type posted struct {
	body    []byte
	message jsonrpc.Message // the body as a single message
	err     error           // of parsing it

	messages []transport.Message // one, or those of a batch
	parsed   []*jsonrpc.Message  // those of a batch
	requests []jsonrpc.ID        // the ids of the requests
	answers  []jsonrpc.ID        // the ids of the responses
	params   []byte              // of initialize; otherwise nil
	batch    bool
	open     bool // initialize
	quiet    bool // a notification that has no effect without a session
	plain    bool // tasks/get or tasks/list, which are answered with JSON if possible

	share *guard.Share // of the body

	// What the fields above refer to if there is one message, and what serving in a session needs:
	// one allocation instead of many.
	single  [1]transport.Message
	request [1]jsonrpc.ID
	counted guard.Share
	sink    sink // to which the answers are written
}

// parse sorts the messages of the body. It fails if any of them is invalid.
func (p *posted) parse() error {
	switch {
	case p.err == nil:
		p.messages, p.requests = p.single[:0], p.request[:0]
		p.add(&p.message, p.body)
	case errors.Is(p.err, jsonfault.Batch):
		return p.parseBatch()
	}
	return p.err
}

// parseBatch parses the body as a batch. It fails if any of the messages is invalid.
func (p *posted) parseBatch() error {
	p.batch = true
	items, err := jsonrpc.ParseReceivedBatch(p.body, codec.NoCopy())
	if err != nil {
		return err
	}
	for i := range items {
		item := &items[i]
		if item.Err != nil {
			return item.Err
		}
		text, err := codec.Marshal(&item.Message)
		if err != nil {
			return err
		}
		p.parsed = append(p.parsed, &item.Message)
		p.add(&item.Message, text)
	}
	return nil
}

// add adds a message.
func (p *posted) add(m *jsonrpc.Message, text []byte) {
	message := transport.Message{Text: text}
	message.SetParsed(m)
	p.messages = append(p.messages, message)
	switch m.Kind {
	case jsonrpc.KindRequest:
		p.requests = append(p.requests, m.ID)
		switch m.Method {
		case mcp.MethodInitialize:
			p.open, p.params = true, m.Params
		case mcp.MethodTasksGet, mcp.MethodTasksList:
			p.plain = !p.batch
		}
	case jsonrpc.KindNotification:
		p.quiet = m.Method == mcp.MethodNotificationsInitialized || m.Method == mcp.MethodNotificationsCancelled
	default:
		p.answers = append(p.answers, m.ID)
	}
}

// maxRequestID limits the length of the id of a request in bytes. The session answers requests with
// longer ids without an id, so its answer belongs to no stream.
const maxRequestID = 1 << 10

func isLong(id jsonrpc.ID) bool {
	text, ok := id.Text()
	if !ok {
		text = id.String()
	}
	return len(text) > maxRequestID
}

func refuseLongID(w http.ResponseWriter) {
	guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, fmt.Sprintf("id has more than %d bytes", maxRequestID))
}

// post serves a POST.
func (h *Handler) post(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	// The header decides before the message is read. A message that turns out to be modern without
	// such a header is rejected.
	named := h.namesModern(r)
	var c *serverConn
	if !h.o.Stateless && !named && r.Header.Get(headerSession) != "" {
		var ok bool
		if c, ok = h.sessionOf(ctx, w, r); !ok { // before the body is read
			return
		}
	}
	var taken *place
	if h.o.Stateless || named {
		var err error
		if taken, err = h.takePlace(guard.Account(ctx)); err != nil {
			if named {
				refuseModern(w, jsonrpc.ID{}, err)
			} else {
				refuse(w, err)
			}
			return
		}
		defer h.leavePlace(taken)
	}
	p := new(posted)
	share := &p.counted
	maxBody := h.o.Limits.Message
	if taken != nil {
		share = &taken.body // a subscription keeps it, but not its message
		*share = guard.Share{Room: taken.usage.bodies, Free: int64(h.o.Limits.Initialize), Code: engine.CodeOverloaded}
		if named {
			share.Code = modern.CodeOverloaded
		}
	} else {
		account := guard.Account(ctx)
		if c != nil {
			account = c.account
		} else { // only initialize needs no session
			maxBody = min(maxBody, h.o.Limits.Initialize)
		}
		u, free := h.enter(account) // also after c has ended
		defer h.exit(u)
		*share = guard.Share{Room: u.bodies, Free: int64(free), Code: engine.CodeOverloaded}
	}
	defer share.Release() // held until the requests are answered
	p.share = share
	switch {
	case !h.readPost(ctx, w, r, c, maxBody, p):
	case p.err == nil && h.isModern(named, &p.message):
		h.serveModern(ctx, w, r, &p.message, p.body, taken)
	case named && errors.Is(p.err, jsonfault.Batch):
		guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "the revision has no batches")
	default:
		h.serveInSession(ctx, w, r, c, p, taken)
	}
}

// readPost reads the body of a POST into p. c is the connection of the session; nil without a
// session id. If readPost returns false, it has answered the POST.
//
// Like serveInSession, it is not part of post: an idle subscription keeps the stack of post in
// memory.
func (h *Handler) readPost(ctx context.Context, w http.ResponseWriter, r *http.Request, c *serverConn, maxBody int, p *posted) bool {
	body, ok := guard.ReadBody(w, r, maxBody, h.o.Timeouts.Read, p.share)
	if !ok {
		if fail, ok := guard.FailUnread(body, maxBody, p.share); ok && c != nil {
			c.in.Put(ctx, fail) // fails only if the session ends
		}
		return false
	}
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		guard.Refuse(w, http.StatusNotAcceptable, jsonrpc.CodeInvalidRequest, "the client does not accept both application/json and text/event-stream")
		return false
	}
	p.body = body
	p.message, p.err = jsonrpc.ParseReceived(body)
	return true
}

// serveInSession serves a POST that belongs to a session. c is the connection of the session; nil
// without a session id.
func (h *Handler) serveInSession(ctx context.Context, w http.ResponseWriter, r *http.Request, c *serverConn, p *posted, taken *place) {
	body, m := p.body, &p.message
	err := p.parse()
	id := m.ID // of a request; otherwise zero
	if m.Kind != jsonrpc.KindRequest {
		id = jsonrpc.ID{}
	}
	if err != nil {
		if fail, ok := guard.FailAnswer(m, err); ok && c != nil {
			c.in.Put(ctx, fail) // fails only if the session ends
		}
		guard.RefuseCall(w, http.StatusBadRequest, id, &jsonrpc.Error{Code: jsonrpc.CodeOf(err), Message: err.Error()})
		return
	}
	if len(body) > maxRequestID && slices.ContainsFunc(p.requests, isLong) {
		refuseLongID(w)
		return
	}
	if p.open && len(body) > h.o.Limits.Initialize {
		guard.RefuseCall(w, http.StatusRequestEntityTooLarge, id, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("initialize has more than %d bytes", h.o.Limits.Initialize)})
		return
	}
	if p.batch && p.open {
		guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "initialize must not be part of a batch")
		return
	}
	if h.draining.Load() && len(p.requests) > 0 {
		refuse(w, errDraining)
		return
	}
	if p.batch && !h.guard.Permits(ctx, w, id, p.parsed...) || !p.batch && !h.guard.Permits(ctx, w, id, m) {
		return
	}
	if c == nil {
		var ok bool
		if c, ok = h.connFor(ctx, w, r, p, taken); !ok {
			return
		}
	}
	if revision := c.handshake.negotiated(); p.batch && !hasBatches(revision) {
		for _, id := range p.answers {
			fail, _ := guard.FailAnswer(&jsonrpc.Message{Kind: jsonrpc.KindResponse, ID: id}, jsonfault.Batch)
			c.in.Put(ctx, fail)
		}
		guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, fmt.Sprintf("revision %q has no batches", revision))
		return
	}
	brief := len(p.requests) == 0
	if err := c.exchanges.enter(brief); err != nil {
		refuse(w, c.because(err))
		return
	}
	defer c.exchanges.leave(brief)
	if brief {
		receive(ctx, w, r, c, p)
	} else {
		h.exchange(ctx, w, r, c, p)
	}
}

// connFor returns the connection for a POST without a session id. If it returns false, it has
// answered the POST. taken is the place of the POST; nil unless the handler is Stateless.
func (h *Handler) connFor(ctx context.Context, w http.ResponseWriter, r *http.Request, p *posted, taken *place) (c *serverConn, ok bool) {
	if !p.open && !checkProtocol(w, r, nil) {
		return nil, false
	}
	var err error
	switch {
	case h.o.Stateless && len(p.answers) > 0:
		guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "response without a request: the server is stateless")
		return nil, false
	case h.o.Stateless && len(p.requests) == 0 && p.quiet && !p.batch:
		guard.WriteStatus(w, http.StatusAccepted)
		return nil, false
	case h.o.Stateless && p.open:
		c, err = h.newConn(ctx, r, "", func(c *serverConn) { c.place = taken })
	case h.o.Stateless:
		revision := protocolOf(r)
		c, err = h.newConn(ctx, r, "", func(c *serverConn) {
			c.place = taken
			c.handshake.restore(revision, nil)
		})
		if err == nil && !c.speaks(revision) {
			refuseRevision(w, revision)
			c.end()
			return nil, false
		}
	case p.open:
		c, err = h.newSession(ctx, r)
	default:
		guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "MCP-Session-Id is missing")
		return nil, false
	}
	if err != nil {
		refuse(w, err)
		return nil, false
	}
	return c, true
}

// receive passes messages without an answer to the owner.
func receive(ctx context.Context, w http.ResponseWriter, r *http.Request, c *serverConn, p *posted) {
	for _, m := range p.messages {
		m.Context = ctx
		if err := c.in.Put(r.Context(), m); err != nil {
			refuse(w, c.because(err))
			return
		}
	}
	if c.id == "" {
		c.in.Close(io.EOF) // the owner may finish handling the messages
	}
	guard.WriteStatus(w, http.StatusAccepted)
}

// exchange passes requests to the owner and writes their answers.
func (h *Handler) exchange(ctx context.Context, w http.ResponseWriter, r *http.Request, c *serverConn, p *posted) {
	opening := p.open && !c.handshake.isOpen()
	var params []byte
	if opening && c.id != "" {
		params = p.params
	}
	k := &p.sink
	wake, ok := h.wakes.Get().(chan struct{})
	if !ok {
		wake = newWake()
	}
	defer h.wakes.Put(wake) // a late signal wakes another sink to no effect
	k.init(&c.out, w, wake)
	st, err := c.streams.begin(p.requests, params, k)
	if err != nil {
		refuse(w, c.because(err))
		return
	}
	st.keep(c, p.share)
	c.out.add(k)
	defer c.out.remove(&st.outlet, k)
	if h.o.Streams.After == 0 && !opening && !p.plain {
		c.start(st)
	}
	for i := range st.requests {
		st.requests[i].Context, st.requests[i].c = ctx, c
	}
	next := 0 // request
	for i, m := range p.messages {
		if m.Context = &st.requests[0]; !p.batch || p.parsed[i].Kind == jsonrpc.KindRequest {
			m.Context, m.Reply = &st.requests[next], &st.requests[next]
			next++
		}
		if err := c.in.Put(r.Context(), m); err != nil {
			c.streams.remove(st, st.requests...)
			st.abandon()
			refuse(w, c.because(err))
			return
		}
	}
	answer, how := h.await(r, c, k, opening || p.plain)
	if how == replyStream {
		c.start(st)
		if text, is := k.reply(); is == replyJSON { // it arrived in between
			answer, how = text, is
		}
	}
	switch how {
	case replyJSON:
		if opening && c.id != "" {
			if c.opened(ctx, p.params, answer) {
				w.Header()[headerSession] = []string{c.id}
			} else {
				defer c.in.Close(transport.ErrClosed)
			}
		}
		k.writeJSON(http.StatusOK, answer) // fails if the client has disconnected or does not read
	case replyStream:
		h.serveStream(w, r, c, st, k, 0, 0)
		if opening && c.id != "" && c.out.isOver(&st.outlet) && !c.handshake.isOpen() { // initialize was rejected
			c.in.Close(transport.ErrClosed)
		}
	case replyClosed:
		if opening {
			refuse(w, errDraining)
			return
		}
		guard.RefuseCall(w, http.StatusOK, p.requests[0], &jsonrpc.Error{Code: engine.CodeClosing, Message: "the session has ended"})
	case replyNothing:
		if opening {
			c.in.Close(transport.ErrClosed) // no client knows the session
		}
	}
	if c.id == "" && !c.out.isOver(&st.outlet) { // the client has disconnected, and cannot resume the stream
		c.endAfter(h.o.Timeouts.Linger)
	}
}

// endAfter closes the connection after a time, unless it is closed before.
func (c *serverConn) endAfter(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.linger = time.AfterFunc(d, c.end) // its goroutine ends when the connection is closed
	}
}

// timerPool reuses timers. The zero value is ready to use.
type timerPool struct{ stopped sync.Pool }

// start returns a running timer. Return it with stop.
func (p *timerPool) start(d time.Duration) *time.Timer {
	if t, ok := p.stopped.Get().(*time.Timer); ok {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

// stop stops a timer, which empties its channel, and makes it available for start.
func (p *timerPool) stop(t *time.Timer) {
	t.Stop()
	p.stopped.Put(t)
}

// reply is the kind of response to a request.
type reply uint8

const (
	replyNothing reply = iota // the client has disconnected
	replyJSON
	replyStream
	replyClosed // the session has ended
)

// await waits until the kind of the response is known. If plain is set, the response does not
// become a stream because the answer takes longer than Streams.After.
func (h *Handler) await(r *http.Request, c *serverConn, k *sink, plain bool) (answer []byte, how reply) {
	var late <-chan time.Time
	if !plain {
		if h.o.Streams.After == 0 {
			return nil, replyStream
		}
		timer := h.timers.start(h.o.Streams.After)
		defer h.timers.stop(timer)
		late = timer.C
	}
	disconnected := r.Context().Done()
	for over := false; ; {
		if answer, how = k.reply(); how != replyNothing {
			return answer, how
		}
		if over {
			return nil, replyClosed
		}
		select {
		case <-k.wake:
		case <-c.done:
			over = true
		case <-late:
			return nil, replyStream
		case <-disconnected:
			return nil, replyNothing
		}
	}
}

// opened completes a new session with the answer to initialize. It returns false if the answer is
// not a result.
func (c *serverConn) opened(ctx context.Context, params, answer []byte) bool {
	revision, ok := c.handshake.complete(answer)
	if ok {
		c.journal.open(ctx, Opening{Principal: c.principal, Revision: revision, Client: params})
	}
	return ok
}

// refuse answers a request that failed with err.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	code := int64(engine.CodeClosing)
	switch {
	case errors.Is(err, ErrUnknown), errors.Is(err, transport.ErrClosed):
		status, code, err = http.StatusNotFound, jsonrpc.CodeInvalidRequest, errors.New("no such session")
	case errors.Is(err, errFullOfSessions), errors.Is(err, errFull):
		code = engine.CodeOverloaded
	case errors.Is(err, errTooMany), errors.Is(err, errTooManyRequests), errors.Is(err, errTooManyStreams), errors.Is(err, transport.ErrStalled):
		status, code = http.StatusTooManyRequests, engine.CodeOverloaded
	case errors.Is(err, errID), errors.Is(err, errOpen):
		status, code = http.StatusInternalServerError, jsonrpc.CodeInternalError
	case errors.Is(err, errIDInUse):
		status, code = http.StatusBadRequest, jsonrpc.CodeInvalidRequest
	}
	guard.Refuse(w, status, code, err.Error())
}

// checkProtocol reports whether the server speaks the revision in the header of a request, if there
// is one. If it returns false, it has answered the request. c is the connection of the session; nil
// without one.
func checkProtocol(w http.ResponseWriter, r *http.Request, c *serverConn) bool {
	values := r.Header[headerProtocol]
	if len(values) == 0 {
		return true
	}
	if revision := mcp.Revision(values[0]); len(values) > 1 || !revision.Has(mcp.MethodInitialize) || c != nil && !c.speaks(revision) {
		refuseRevision(w, revision)
		return false
	}
	return true
}

// refuseRevision rejects a request in a revision that the server does not speak.
func refuseRevision(w http.ResponseWriter, revision mcp.Revision) {
	guard.Refuse(w, http.StatusBadRequest, jsonrpc.CodeInvalidRequest, fmt.Sprintf("revision %.40q is not supported", string(revision)))
}

// protocolOf returns the revision of a request without a session (MCP transports, "Protocol Version
// Header").
func protocolOf(r *http.Request) mcp.Revision {
	if v := r.Header.Get(headerProtocol); v != "" {
		return mcp.Revision(v)
	}
	return mcp.Revision20250326
}

// accepts reports whether the client accepts a media type.
func accepts(r *http.Request, kind string) bool {
	values := r.Header["Accept"]
	if len(values) == 0 {
		return true
	}
	family, _, _ := strings.Cut(kind, "/")
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, _, _ := strings.Cut(part, ";")
			name = strings.TrimSpace(name)
			if strings.EqualFold(name, kind) || name == "*/*" || strings.EqualFold(name, family+"/*") {
				return true
			}
		}
	}
	return false
}

// Disconnect closes the HTTP connection of the request that is being served under ctx, so that no
// connection is held while the handler sends nothing. The stream continues: the client reconnects
// and receives the messages sent in between. Disconnect returns false if there is no such
// connection, or if the client cannot resume the stream (MCP transports, "Sending Messages to the
// Server").
func Disconnect(ctx context.Context) bool {
	i, ok := ctx.Value(incomingKey{}).(*incoming)
	return ok && i.c.priming() && i.c.out.hangUp(&i.st.outlet)
}

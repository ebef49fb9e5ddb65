package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Connect opens a session as the client of conn, introduces this side as hello says, whose protocol version need
// not be set, and returns when both sides are ready. The session owns conn, and closes it if Connect fails: with a
// [*VersionError] if the server speaks none of the revisions of cfg; with the error of the server; with the cause
// of ctx, which bounds Connect alone; or with what happened to the connection (MCP lifecycle, "Initialization"). If conn
// is a [transport.Renewer], what the server declares in a later opening counts from then on.
func Connect(ctx context.Context, conn transport.Conn, hello *mcp.InitializeRequestParams, cfg *Config) (*Session, error) {
	s := newSession(conn, RoleClient, cfg)
	s.client = clientHello(hello, s.cfg.Revisions[0])
	if r, ok := conn.(transport.Renewer); ok {
		r.Renewed(s.renewed)
	}
	s.start()
	if err := s.introduce(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// clientHello returns a copy of hello with the revision to ask for.
func clientHello(hello *mcp.InitializeRequestParams, rev mcp.Revision) *mcp.InitializeRequestParams {
	var params mcp.InitializeRequestParams
	if hello != nil {
		params = *hello
	}
	params.ProtocolVersion = string(rev)
	return &params
}

// introduce is the client's part of the opening.
func (s *Session) introduce(ctx context.Context) error {
	raw, err := s.Call(ctx, mcp.MethodInitialize, s.client)
	if err != nil {
		return err
	}
	var result mcp.InitializeResult
	if err := codec.Unmarshal(raw, &result); err != nil {
		return fmt.Errorf("session: result of initialize: %w", err)
	}
	rev := mcp.Revision(result.ProtocolVersion)
	if !slices.Contains(s.cfg.Revisions, rev) {
		return &VersionError{mcp.Revision(s.client.ProtocolVersion), rev, s.cfg.Revisions}
	}
	s.mu.Lock()
	if s.server == nil { // or it was renewed already
		s.server = &result
	}
	s.revision = rev
	s.phase = phaseReady
	s.takeNotices()
	s.mu.Unlock()
	if err := s.Notify(ctx, mcp.MethodNotificationsInitialized, nil); err != nil {
		return err
	}
	close(s.ready)
	return nil
}

// renewed takes how the server introduces itself in an opening after the first one, in which the revision is the same.
func (s *Session) renewed(initializeResult []byte) {
	var result mcp.InitializeResult
	if err := codec.Unmarshal(initializeResult, &result); err != nil {
		s.warn("result of a later initialize ignored", "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = &result
}

// Serve opens a session as the server of conn and introduces this side as hello says, whose protocol version need
// not be set, when the client asks. It returns at once; see [Session.Ready] and [Session.Wait]. The session owns
// conn (MCP lifecycle, "Initialization"). If conn is a [transport.Resumed] of a session that was opened before, it
// does what Resume does.
func Serve(conn transport.Conn, hello *mcp.InitializeResult, cfg *Config) *Session {
	if state, ok := resumed(conn, hello); ok {
		return Resume(conn, state, cfg)
	}
	s := newSession(conn, RoleServer, cfg)
	var result mcp.InitializeResult
	if hello != nil {
		result = *hello
	}
	s.server = &result
	s.start()
	return s
}

// State is what a session has settled in its opening: enough to go on with it in another process, or over another
// connection.
type State struct {
	Revision mcp.Revision
	Client   *mcp.InitializeRequestParams // nil for a client of which nothing is known, and which is asked for nothing
	Server   *mcp.InitializeResult
}

// State returns what the opening has settled; ok is false before that.
func (s *Session) State() (state State, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return State{s.revision, s.client, s.server}, s.phase == phaseReady
}

// Resume goes on as the server of a session that was opened before: it is ready at once, and initialize is refused.
// What was in flight is lost with the Session that it was in; the ids of requests sent from here on are others.
func Resume(conn transport.Conn, state State, cfg *Config) *Session {
	s := newSession(conn, RoleServer, cfg)
	s.revision, s.client, s.server = state.Revision, state.Client, state.Server
	s.idPrefix = rand.Text() + "-"
	s.phase = phaseReady
	close(s.ready)
	s.start()
	return s
}

// resumed returns the state of the session that a connection belongs to, if that was opened before.
func resumed(conn transport.Conn, hello *mcp.InitializeResult) (state State, ok bool) {
	r, ok := conn.(transport.Resumed)
	if !ok {
		return State{}, false
	}
	revision, client, ok := r.Resumed()
	if !ok {
		return State{}, false
	}
	state = State{Revision: revision, Server: &mcp.InitializeResult{}}
	if hello != nil {
		*state.Server = *hello
	}
	state.Server.ProtocolVersion = string(revision)
	var params mcp.InitializeRequestParams
	if client != nil && codec.Unmarshal(client, &params) == nil { // or it is as if nothing were known
		state.Client = &params
	}
	return state, true
}

// initialize answers the client's opening.
func (s *Session) initialize(req *Request) (codec.Encoder, error) {
	var params mcp.InitializeRequestParams
	if err := codec.Unmarshal(req.Params, &params); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	if params.ProtocolVersion == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params: protocolVersion is missing"}
	}
	rev := mcp.Revision(params.ProtocolVersion)
	if !slices.Contains(s.cfg.Revisions, rev) {
		rev = s.cfg.Revisions[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	result := *s.server
	result.ProtocolVersion = string(rev)
	s.client, s.server, s.revision = &params, &result, rev
	return &result, nil
}

// open notes that initialize was answered, with a result if ok. It is called with mu held.
func (s *Session) open(ok bool) {
	switch {
	case !ok:
		s.phase = phaseNew
		s.notices, s.noticeBytes = nil, 0
	case s.confirmed:
		s.phase = phaseReady
		close(s.ready)
	default:
		s.phase = phaseOpened
	}
	s.confirmed = false
	close(s.opened)
	s.opened = nil
	s.takeNotices()
}

// initialized notes that the client is ready, which some say before they have the answer to initialize.
func (s *Session) initialized() {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.role == RoleServer && s.phase == phaseOpened:
		s.phase = phaseReady
		close(s.ready)
	case s.role == RoleServer && s.phase == phaseOpening:
		s.confirmed = true
	}
}

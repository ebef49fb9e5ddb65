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
	client := clientHello(hello, s.cfg.Revisions[0])
	s.handshake.set(func(a *agreement) { a.client = client })
	if r, ok := transport.As[transport.Renewer](conn); ok {
		r.Renewed(s.renewed)
	}
	s.start()
	if err := s.introduce(ctx, client); err != nil {
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
func (s *Session) introduce(ctx context.Context, client *mcp.InitializeRequestParams) error {
	raw, err := s.Call(ctx, mcp.MethodInitialize, client)
	if err != nil {
		return err
	}
	var result mcp.InitializeResult
	if err := codec.Unmarshal(raw, &result); err != nil {
		return fmt.Errorf("session: result of initialize: %w", err)
	}
	rev := mcp.Revision(result.ProtocolVersion)
	if !slices.Contains(s.cfg.Revisions, rev) {
		return &VersionError{mcp.Revision(client.ProtocolVersion), rev, s.cfg.Revisions}
	}
	s.handshake.set(func(a *agreement) {
		if a.server == nil { // or it was renewed already
			a.server = &result
		}
		a.revision, a.phase = rev, phaseReady
	})
	s.notices.Resume()
	if err := s.Notify(ctx, mcp.MethodNotificationsInitialized, nil); err != nil {
		return err
	}
	close(s.handshake.ready)
	return nil
}

// renewed takes how the server introduces itself in an opening after the first one, in which the revision is the same.
func (s *Session) renewed(initializeResult []byte) {
	var result mcp.InitializeResult
	if err := codec.Unmarshal(initializeResult, &result); err != nil {
		s.warn("result of a later initialize ignored", "error", err)
		return
	}
	s.handshake.set(func(a *agreement) { a.server = &result })
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
	s.handshake.set(func(a *agreement) { a.server = &result })
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
	a := s.handshake.current.Load()
	return State{a.revision, a.client, a.server}, a.phase == phaseReady
}

// Resume goes on as the server of a session that was opened before: it is ready at once, and initialize is refused.
// What was in flight is lost with the Session that it was in; the ids of requests sent from here on are others.
func Resume(conn transport.Conn, state State, cfg *Config) *Session {
	s := newSession(conn, RoleServer, cfg)
	s.calls.idPrefix = rand.Text() + "-"
	s.handshake.set(func(a *agreement) {
		a.revision, a.client, a.server, a.phase = state.Revision, state.Client, state.Server, phaseReady
	})
	close(s.handshake.ready)
	s.notices.Resume()
	s.start()
	return s
}

// resumed returns the state of the session that a connection belongs to, if that was opened before.
func resumed(conn transport.Conn, hello *mcp.InitializeResult) (state State, ok bool) {
	r, ok := transport.As[transport.Resumed](conn)
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
	var result mcp.InitializeResult
	s.handshake.set(func(a *agreement) {
		result = *a.server
		result.ProtocolVersion = string(rev)
		a.client, a.server, a.revision = &params, &result, rev
	})
	return &result, nil
}

// opened ends the handshake of a server when initialize was answered, with a result if ok.
func (s *Session) opened(ok bool) {
	s.handshake.end(ok)
	if ok {
		s.notices.Resume()
	} else {
		s.notices.Clear()
	}
}

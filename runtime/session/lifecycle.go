package session

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// Connect opens a session as the client of conn and returns when the handshake is complete. It
// sends params in initialize, with the protocol version set to the first of the configured
// revisions with sessions. The session owns conn. ctx bounds Connect alone.
//
// If cfg has revisions without sessions, see [ModernRevisions], Connect sends server/discover
// first. If the server answers it, the Session is not a session of the protocol: it has the
// revision and what the server has said of itself, and each of its requests carries the revision,
// the client info and the capabilities of params. Connect performs the handshake if the server
// answers with another error than those of modern revisions, or not within five seconds. If cfg has
// only revisions without sessions, it fails with [ErrNotModern] instead. A client of package client
// that knows the server sends no server/discover.
//
// Connect closes conn if it fails: with an error that names the invalid numbers of cfg, with a
// [*VersionError] if the server chooses a revision that is not in cfg, with the error of the
// server, with the cause of ctx, or with the error of the connection (MCP lifecycle,
// "Initialization").
//
// If conn is a [transport.Reopener] and the server loses the session, or does not answer as many
// pings in a row as Limits.MissedPings of cfg, the Session opens a new one with the same params.
// Meanwhile, messages wait. A request that the server has rejected because of the loss is sent once
// more. Other requests fail with a [*transport.DeliveryError] that wraps
// [transport.ErrSessionLost], and unanswered requests of the server are cancelled. If an attempt
// fails, waiting requests fail with that error as well, and the Session tries again after a delay.
// It ends if the server rejects the new session or chooses another revision. See [Hooks].Reopened.
func Connect(ctx context.Context, conn transport.Conn, params *mcp.InitializeRequestParams, cfg *Options) (*Session, error) {
	s, invalid := newSession(conn, roleClient, cfg)
	_, sessions := modern.Split(s.cfg.Revisions)
	client := initializeParams(params, append(sessions, s.cfg.Revisions[0])[0])
	s.handshake.set(func(a *agreement) { a.client = client })
	s.reopening.init(conn)
	s.start(invalid)
	err := invalid
	if err == nil {
		err = s.negotiate(ctx, client)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// initializeParams returns a copy of params with the revision to request.
func initializeParams(params *mcp.InitializeRequestParams, rev mcp.Revision) *mcp.InitializeRequestParams {
	var out mcp.InitializeRequestParams
	if params != nil {
		out = *params
	}
	out.ProtocolVersion = string(rev)
	return &out
}

// initialize performs the client's part of the handshake.
func (s *Session) initialize(ctx context.Context, client *mcp.InitializeRequestParams) error {
	return s.opens(ctx, s.requestInitialize(ctx, client))
}

// requestInitialize sends initialize.
func (s *Session) requestInitialize(ctx context.Context, client *mcp.InitializeRequestParams) handshakeResult {
	raw, err := s.Call(ctx, mcp.MethodInitialize, client)
	if err != nil {
		return handshakeResult{err: err}
	}
	var result mcp.InitializeResult
	if err := codec.Unmarshal(raw, &result); err != nil {
		return handshakeResult{err: fmt.Errorf("session: result of initialize: %w", err)}
	}
	rev := mcp.Revision(result.ProtocolVersion)
	if _, sessions := modern.Split(s.cfg.Revisions); !slices.Contains(sessions, rev) {
		return handshakeResult{err: &VersionError{mcp.Revision(client.ProtocolVersion), rev, s.cfg.Revisions}}
	}
	return handshakeResult{rev, &result, nil}
}

// opens completes the handshake after the server has answered initialize.
func (s *Session) opens(ctx context.Context, r handshakeResult) error {
	if r.err != nil {
		return r.err
	}
	s.handshake.set(func(a *agreement) { a.server, a.revision, a.phase = r.server, r.revision, phaseReady })
	s.notices.Resume()
	if err := s.Notify(ctx, mcp.MethodNotificationsInitialized, nil); err != nil {
		return err
	}
	close(s.handshake.ready)
	return nil
}

// Serve opens a session as the server of conn and returns at once; see [Session.Ready] and
// [Session.Wait]. If cfg is invalid, the session has ended, and Wait returns an error that names
// each invalid number. Otherwise the session answers initialize with result, and sets the protocol
// version in it. The session owns conn (MCP lifecycle, "Initialization").
//
// If conn is a [transport.Persister] that belongs to a stored session, Serve restores the session:
// it is ready at once, and rejects initialize. Requests that were in flight in the earlier session
// are lost, and the ids of later requests differ from those of the earlier session.
func Serve(conn transport.Conn, result *mcp.InitializeResult, cfg *Options) *Session {
	if state, ok := restored(conn, result); ok {
		return restore(conn, state, cfg)
	}
	s, invalid := newSession(conn, roleServer, cfg)
	var own mcp.InitializeResult
	if result != nil {
		own = *result
	}
	s.handshake.set(func(a *agreement) { a.server = &own })
	s.start(invalid)
	return s
}

// State is the outcome of the handshake of a session.
type State struct {
	Revision mcp.Revision
	Client   *mcp.InitializeRequestParams // nil if unknown: then the client has no capabilities
	Server   *mcp.InitializeResult
}

// State returns the outcome of the handshake. ok is false before the handshake is complete.
func (s sessionInternals) State() (state State, ok bool) {
	a := s.handshake.current.Load()
	return State{a.revision, a.client, a.server}, a.phase == phaseReady
}

// restore opens a session as the server of conn with the state of an earlier session.
func restore(conn transport.Conn, state State, cfg *Options) *Session {
	s, invalid := newSession(conn, roleServer, cfg)
	s.calls.idPrefix += rand.Text() + "-"
	s.handshake.set(func(a *agreement) {
		a.revision, a.client, a.server, a.phase = state.Revision, state.Client, state.Server, phaseReady
	})
	close(s.handshake.ready)
	s.notices.Resume()
	s.start(invalid)
	return s
}

// restored returns the state of the stored session that a connection belongs to. ok is false if
// there is none.
func restored(conn transport.Conn, result *mcp.InitializeResult) (state State, ok bool) {
	r, ok := transport.As[transport.Persister](conn)
	if !ok {
		return State{}, false
	}
	revision, client, ok := r.Restored()
	if !ok {
		return State{}, false
	}
	state = State{Revision: revision, Server: &mcp.InitializeResult{}}
	if result != nil {
		*state.Server = *result
	}
	state.Server.ProtocolVersion = string(revision)
	var params mcp.InitializeRequestParams
	if client != nil && codec.Unmarshal(client, &params) == nil { // otherwise the client is unknown
		state.Client = &params
	}
	return state, true
}

// serveInitialize handles the client's initialize.
func (s *Session) serveInitialize(req *Request) (codec.Encoder, error) {
	var params mcp.InitializeRequestParams
	if err := codec.Unmarshal(req.Params, &params); err != nil {
		return nil, jsonrpc.InvalidParams(err)
	}
	if params.ProtocolVersion == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "invalid params: protocolVersion is missing"}
	}
	_, sessions := modern.Split(s.cfg.Revisions)
	if len(sessions) == 0 {
		return nil, modern.NoSessions(req.Params, s.cfg.Revisions)
	}
	rev := mcp.Revision(params.ProtocolVersion)
	if !slices.Contains(sessions, rev) {
		rev = sessions[0]
	}
	var result mcp.InitializeResult
	s.handshake.set(func(a *agreement) {
		result = *a.server
		result.ProtocolVersion = string(rev)
		a.client, a.server, a.revision = &params, &result, rev
	})
	return &result, nil
}

// opened ends the handshake of a server after initialize was answered. ok reports whether the
// answer is a result.
func (s *Session) opened(ok bool) {
	s.handshake.end(ok)
	if !ok {
		s.notices.Clear()
	}
	s.notices.Resume()
}

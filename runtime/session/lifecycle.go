package session

import (
	"context"
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
// of ctx, which bounds Connect alone; or with what happened to the connection (MCP lifecycle, "Initialization").
func Connect(ctx context.Context, conn transport.Conn, hello *mcp.InitializeRequestParams, cfg *Config) (*Session, error) {
	s := newSession(conn, RoleClient, cfg)
	s.client = clientHello(hello, s.cfg.Revisions[0])
	s.start()
	if err := s.open(ctx); err != nil {
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

// open is the client's part of the handshake.
func (s *Session) open(ctx context.Context) error {
	raw, err := s.Call(ctx, "initialize", s.client)
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
	s.server, s.revision = &result, rev
	s.phase = phaseReady
	s.mu.Unlock()
	if err := s.Notify(ctx, "notifications/initialized", nil); err != nil {
		return err
	}
	close(s.ready)
	return nil
}

// Serve opens a session as the server of conn and introduces this side as hello says, whose protocol version need
// not be set, when the client asks. It returns at once; see [Session.Ready] and [Session.Wait]. The session owns
// conn (MCP lifecycle, "Initialization").
func Serve(conn transport.Conn, hello *mcp.InitializeResult, cfg *Config) *Session {
	s := newSession(conn, RoleServer, cfg)
	var result mcp.InitializeResult
	if hello != nil {
		result = *hello
	}
	s.server = &result
	s.start()
	return s
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

// initialized notes that the client is ready.
func (s *Session) initialized() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.role == RoleServer && s.phase == phaseOpened {
		s.phase = phaseReady
		close(s.ready)
	}
}

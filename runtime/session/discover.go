package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/lazyctx"
	"github.com/mcpwire/mcpwire/runtime/internal/modern"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// ErrNotModern is returned by [Connect] if the server serves only revisions with sessions, and
// [Options.Revisions] has none of these.
var ErrNotModern = errors.New("session: server serves only revisions with sessions")

// probeTimeout is how long a client waits for the answer to server/discover before it sends
// initialize as well. Some servers of revisions with sessions do not answer unknown requests.
const probeTimeout = 5 * time.Second

// negotiate finds out which revision the server speaks: a modern one, if the server answers
// server/discover, or one with sessions (MCP versioning, "Backward Compatibility with
// Initialization-Based Versions").
func (s *Session) negotiate(ctx context.Context, client *mcp.InitializeRequestParams) error {
	current, sessions := modern.Split(s.cfg.Revisions)
	if known := s.cfg.inner.Known; known != nil {
		switch {
		case slices.Contains(current, known.Revision) && known.Server != nil:
			return s.adopt(known.Revision, known.Server, time.Time{})
		case slices.Contains(sessions, known.Revision):
			err := s.initialize(ctx, client)
			if err == nil || len(current) == 0 || !rejected(err) {
				return err
			}
			sessions = nil // initialize was rejected
		}
	}
	if len(current) == 0 {
		return s.initialize(ctx, client)
	}
	return s.probe(ctx, client, current, sessions)
}

// discovery is the outcome of server/discover.
type discovery struct {
	revision mcp.Revision          // "" if the server speaks no common modern revision
	server   *mcp.InitializeResult // nil unless revision is set
	err      error                 // why revision is ""
	final    bool                  // initialize would fail, too
}

// handshakeResult is the outcome of initialize.
type handshakeResult struct {
	revision mcp.Revision
	server   *mcp.InitializeResult
	err      error
}

// probe sends server/discover, and initialize if the server does not answer that in time or answers
// as a server of revisions with sessions does.
func (s *Session) probe(ctx context.Context, client *mcp.InitializeRequestParams, current, sessions []mcp.Revision) error {
	clock, start := new(lazyctx.Clock), time.Now()
	ctx, cancel := context.WithCancel(lazyctx.WithClock(ctx, clock))
	defer cancel()
	discovered := make(chan discovery, 1)
	if !s.life.spawn(func() { discovered <- s.discover(ctx, current, sessions) }) { // ends with ctx
		return s.life.err()
	}
	var timer *time.Timer
	var silent <-chan time.Time
	if len(sessions) > 0 {
		timer = time.NewTimer(probeTimeout)
		defer timer.Stop()
		silent = timer.C
	}
	for rest := time.Duration(1); rest > 0; {
		select {
		case d := <-discovered:
			switch {
			case d.revision != "":
				return s.adopt(d.revision, d.server, time.Now())
			case d.final || len(sessions) == 0:
				return d.err
			}
			return s.initialize(ctx, client)
		case <-silent:
			held := false
			if rest, held = restOf(clock, start, probeTimeout, timer); held {
				rest = probeTimeout // the timer expires again
			} else if rest > 0 {
				timer.Reset(rest)
			}
		}
	}
	s.cfg.Logger.Info("server/discover not answered", "timeout", probeTimeout)
	initialized := make(chan handshakeResult, 1)
	if !s.life.spawn(func() { initialized <- s.requestInitialize(ctx, client) }) { // ends with ctx
		return s.life.err()
	}
	for {
		select {
		case d := <-discovered: // late, for instance because the server was still starting
			if d.revision != "" {
				return s.adopt(d.revision, d.server, time.Now())
			}
			if d.final {
				return d.err
			}
			discovered = nil
		case i := <-initialized:
			return s.opens(ctx, i)
		}
	}
}

// discover sends server/discover. It sends it again if the server rejects the revision and supports
// a common one.
func (s *Session) discover(ctx context.Context, current, sessions []mcp.Revision) discovery {
	revision := current[0]
	for again := true; ; again = false {
		raw, err := s.requestDiscover(ctx, revision)
		var offered []mcp.Revision
		if err == nil {
			var result mcp.DiscoverResult
			if err := codec.Unmarshal(raw, &result); err != nil {
				return discovery{err: fmt.Errorf("%w: result of server/discover: %w", ErrNotModern, err)}
			}
			if len(result.SupportedVersions) == 0 {
				return discovery{err: fmt.Errorf("%w: result of server/discover has no supportedVersions", ErrNotModern)}
			}
			offered = revisionsOf(result.SupportedVersions)
			if common := firstCommon(current, offered); common != "" {
				return discovery{revision: common, server: serverOf(common, &result)}
			}
		} else if code := jsonrpc.CodeOf(err); code == modern.CodeUnsupportedVersion {
			offered = offeredBy(err)
		} else {
			return failedDiscovery(err)
		}
		common := firstCommon(current, offered)
		if common != "" && again {
			revision = common
			continue
		}
		failed := &VersionError{Requested: revision, Supported: s.cfg.Revisions}
		if len(offered) > 0 {
			failed.Offered = offered[0]
		}
		return discovery{err: failed, final: firstCommon(sessions, offered) == ""}
	}
}

// requestDiscover sends server/discover with a revision.
func (s *Session) requestDiscover(ctx context.Context, revision mcp.Revision) ([]byte, error) {
	call, err := s.discoverCall(revision)
	if err != nil {
		return nil, err
	}
	return s.sender(ctx, call)
}

// discoverCall returns a call of server/discover with a revision.
func (s *Session) discoverCall(revision mcp.Revision) (*Call, error) {
	meta, err := newRequestMeta(revision, s.handshake.current.Load().client)
	if err != nil {
		return nil, err
	}
	return &Call{Method: mcp.MethodServerDiscover, Session: s, meta: meta.members}, nil
}

// repeatDiscover sends server/discover to a server that has been started again.
func (s *Session) repeatDiscover(ctx context.Context, session uint32) (*mcp.InitializeResult, error) {
	call, err := s.discoverCall(s.Revision())
	if err != nil {
		return nil, err
	}
	call.opts.timeout = cmp.Or(s.cfg.timeout(call.Method), defaultTimeout)
	raw, err := s.exchange(ctx, call, exchange{session: session, inside: true, start: time.Now()})
	if err != nil {
		return nil, err
	}
	var result mcp.DiscoverResult
	if err := codec.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("session: result of server/discover: %w", err)
	}
	return serverOf(s.Revision(), &result), nil
}

// failedDiscovery returns the outcome of a server/discover that failed with err. The codes of
// modern revisions, a lost connection and missing authorization do not show that the server has
// sessions.
func failedDiscovery(err error) discovery {
	answer, answered := errors.AsType[*jsonrpc.Error](err)
	lost, undelivered := errors.AsType[*transport.DeliveryError](err)
	switch {
	case answered:
		return discovery{err: notModern(describe(mcp.MethodServerDiscover, err)), final: modern.IsCode(answer.Code)}
	case undelivered && lost.Refused:
		return discovery{err: notModern(err)}
	case errors.Is(err, ErrTimeout), errors.Is(err, errInvalidAnswer):
		return discovery{err: notModern(err)}
	}
	return discovery{err: err, final: true}
}

// notModern adds to err that the server has no modern revision, unless its code is a modern one.
func notModern(err error) error {
	if modern.IsCode(jsonrpc.CodeOf(err)) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotModern, err)
}

// rejected reports whether a peer has rejected initialize.
func rejected(err error) bool {
	if lost, ok := errors.AsType[*transport.DeliveryError](err); ok {
		return lost.Refused
	}
	_, answered := errors.AsType[*jsonrpc.Error](err)
	_, version := errors.AsType[*VersionError](err)
	return answered || version
}

// adopt makes the session one of a modern revision. Its requests are independent of each other: the
// server keeps no session. asked is when the server has answered server/discover; zero if that is
// unknown.
func (s *Session) adopt(revision mcp.Revision, server *mcp.InitializeResult, asked time.Time) error {
	if err := s.setServer(revision, server); err != nil {
		return err
	}
	s.handshake.set(func(a *agreement) { a.asked = asked })
	s.notices.Resume()
	close(s.handshake.ready)
	return nil
}

// setServer sets the revision and the server info of a modern session.
func (s *Session) setServer(revision mcp.Revision, server *mcp.InitializeResult) error {
	meta, err := newRequestMeta(revision, s.handshake.current.Load().client)
	if err != nil {
		return err
	}
	own := *server
	own.ProtocolVersion = string(revision)
	s.handshake.set(func(a *agreement) { a.server, a.revision, a.phase, a.meta = &own, revision, phaseReady, meta })
	return nil
}

// serverOf returns a result of server/discover as one of initialize.
func serverOf(revision mcp.Revision, d *mcp.DiscoverResult) *mcp.InitializeResult {
	server := &mcp.InitializeResult{
		ProtocolVersion: string(revision), Capabilities: d.Capabilities, Instructions: d.Instructions, Extra: d.Extra,
	}
	if d.Meta != nil && d.Meta.ServerInfo != nil {
		server.ServerInfo = *d.Meta.ServerInfo
	}
	return server
}

// offeredBy returns the revisions that a server offers when it rejects one.
func offeredBy(err error) []mcp.Revision {
	var data mcp.UnsupportedProtocolVersionErrorData
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok && codec.Unmarshal(e.Data, &data) == nil {
		return revisionsOf(data.Supported)
	}
	return nil
}

func revisionsOf(versions []string) []mcp.Revision {
	revisions := make([]mcp.Revision, len(versions))
	for i, version := range versions {
		revisions[i] = mcp.Revision(version)
	}
	return revisions
}

// firstCommon returns the first of own that is in offered, or "".
func firstCommon(own, offered []mcp.Revision) mcp.Revision {
	for _, revision := range own {
		if slices.Contains(offered, revision) {
			return revision
		}
	}
	return ""
}

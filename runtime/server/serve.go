package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/mcpwire/mcpwire/runtime/server/internal/endpoint"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// localPrincipal is the principal of the user who has started the process.
const localPrincipal = "local"

// ServeStdio serves one client over standard input and output, until the client ends the session,
// ctx ends, or the process receives SIGINT or SIGTERM. Running calls then have 5 seconds to finish,
// in addition to [Limits.Drain], or the Grace of [session.Options] if the client has ended the
// session. ServeStdio shuts down the server, as [Server.Shutdown] does. It waits at most as long for
// handlers that ignore the end of their context. A second signal ends the process at once.
//
// The process serves one user. The session therefore has the principal "local", unless
// [Options].Session names another, so that the client can list its tasks. ServeStdio sets
// [os.Stdout] to [os.Stderr], so that a stray print does not corrupt the messages.
//
// ServeStdio returns nil after such an end, the error of [Server.Start] if the server cannot start,
// and the error of the connection if it fails.
func (s *Server) ServeStdio(ctx context.Context) error {
	ctx, stop := notifyContext(ctx)
	defer stop()
	if err := s.Start(ctx); err != nil {
		return unlessEnded(ctx, err)
	}
	return s.serveOnly(ctx, stop, endpoint.Stdio())
}

// serveOnly serves one client until the session or ctx ends, and shuts the server down. It calls stop
// when the shutdown begins.
func (s *Server) serveOnly(ctx context.Context, stop func(), conn transport.Conn) error {
	ended := make(chan struct{})
	sess, err := s.serve(ctx, &endingConn{conn, sync.OnceFunc(func() { close(ended) })}, localPrincipal)
	if err != nil {
		return err
	}
	byPeer := false
	select {
	case <-ended: // handlers may still run
		byPeer = true
	case <-ctx.Done():
	}
	stop() // a second signal ends the process
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace+s.cfg.Limits.Drain)
	defer cancel()
	err = s.shutdown(grace)
	select {
	case <-sess.Done():
		if byPeer {
			err = errors.Join(sess.Wait(), err)
		}
	default:
	}
	return err
}

// endingConn is a connection that calls ending when its session ends.
type endingConn struct {
	transport.Conn
	ending func()
}

func (c *endingConn) Close() error {
	c.ending()
	return c.Conn.Close()
}

// Unwrap implements [transport.Unwrapper].
func (c *endingConn) Unwrap() transport.Conn { return c.Conn }

// notifyContext returns a context that also ends when the process receives SIGINT or SIGTERM.
func notifyContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// unlessEnded returns an error of Start, or nil if the error is that ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// shutdown is [Server.Shutdown], but ignores the errors of sessions and modern requests, such as that
// ctx has ended.
func (s *Server) shutdown(ctx context.Context) error {
	return s.endAll(ctx, s.cfg.Limits.Drain, func(sess *session.Session) error {
		sess.Shutdown(ctx)
		return nil
	}, func() error {
		s.responder.Shutdown(ctx)
		return nil
	})
}

// Handler starts the server, as [Server.Start] does, and returns an [http.Handler] that serves
// clients over Streamable HTTP, at any path. Options may be nil. Their Logger defaults to that of
// the server, and their RequiredScopes to [Server.RequiredScopes].
//
// Handler fails with the error of the start, which lists all mistakes of the program, or if an option
// is invalid. It returns an error, and not a handler that answers 500, because a start opens stores
// and recovers tasks: a process in which that fails should end before a load balancer sends it
// clients.
//
// To end the server in order, call [Server.Shutdown], then Shutdown of the handler, then that of the
// [http.Server]. [Server.ListenAndServe] does all of this. The handler rejects requests with status
// 503 from the moment when the server shuts down, so that clients send them again.
func (s *Server) Handler(options *streamable.HandlerOptions) (*streamable.Handler, error) {
	var o streamable.HandlerOptions
	if options != nil {
		o = *options
	}
	fault := s.record(o.Check())
	if err := s.Start(context.Background()); err != nil {
		return nil, err // has the fault, unless the server runs
	}
	if fault != nil {
		return nil, fault
	}
	o.Logger = cmp.Or(o.Logger, s.cfg.Logger)
	if o.Responder == nil && s.servesModern() {
		o.Responder = s.responder
	}
	if o.Access.RequiredScopes == nil {
		o.Access.RequiredScopes = s.RequiredScopes
	}
	if own, all := o.Rejected, s.cfg.Hooks.HTTPRejected; own == nil {
		o.Rejected = all
	} else if all != nil {
		o.Rejected = func(r *http.Request, status int) {
			all(r, status)
			own(r, status)
		}
	}
	if o.Auth != nil || o.Access.Principal != nil { // the results are for those with credentials
		s.protected.Store(true)
		s.features.Add(1)
	}
	h := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { s.Serve(conn) }, o) // Serve closes conn if it fails
	s.mu.Lock()
	s.handlers = append(s.handlers, h)
	closed := s.closed
	s.mu.Unlock()
	if closed {
		h.Drain()
	}
	return h, nil
}

// Responder returns what serves the modern requests of the server: those of revisions without
// sessions. It is for transports that are not of this module, which pass it such requests, and pass
// sessions to [Server.Serve]; [Server.Handler] does both. [Server.Start] or Serve must have
// returned before.
func (s *Server) Responder() transport.Responder { return s.responder }

// Streams returns the number of open event streams of the server's HTTP handlers; see
// [streamable.Handler.Streams].
func (s *Server) Streams() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.handlers {
		n += h.Streams()
	}
	return n
}

// ListenOptions configures [Server.ListenAndServe]. The zero value is useful.
type ListenOptions struct {
	// HandlerOptions configure the handler. With Auth, the server also serves its resource metadata;
	// see [auth.Protector.Handler]. Without Auth and Principal, clients cannot list tasks.
	streamable.HandlerOptions

	// Path is the path of the endpoint. The default is "/mcp".
	Path string
	// CertFile and KeyFile name the files with the certificate and the private key for TLS. Without
	// them and TLSConfig, the server does not use TLS.
	CertFile, KeyFile string
	// TLSConfig configures TLS. It needs certificates if CertFile is empty.
	TLSConfig *tls.Config
}

// ListenAndServe serves clients over Streamable HTTP at a TCP address, such as "localhost:8080",
// until ctx ends, or the process receives SIGINT or SIGTERM. Options may be nil. The URL of the
// endpoint is logged at level info, to [slog.Default] if the server has no Logger. Running calls
// then have 5 seconds to finish, in addition to [Limits.Drain]; the server, the handler and the
// connections end in this order. A second signal ends the process at once.
//
// The header of a request may take 10 seconds to arrive, and a connection without a request may
// stay open for two minutes. Faults of connections, such as those of TLS, are logged as warnings.
// For other limits, other endpoints and middleware, use [Server.Handler] with an [http.Server].
// That one notices the disconnect of a client which has sent the beginning of its next request over
// HTTP/1.1 only when a write fails, such as that of a [streamable.Streams].KeepAlive.
// ListenAndServe without TLS notices it at once.
//
// ListenAndServe returns nil after such an end, the error of [Server.Start] if the server cannot
// start, and the error of the listener if it fails.
func (s *Server) ListenAndServe(ctx context.Context, address string, options *ListenOptions) error {
	var o ListenOptions
	if options != nil {
		o = *options
	}
	o.Path = cmp.Or(o.Path, "/mcp")
	if !strings.HasPrefix(o.Path, "/") {
		return fmt.Errorf("server: listen: Path %q does not begin with a slash", o.Path)
	}
	config, err := endpoint.TLSConfig(o.TLSConfig, o.CertFile, o.KeyFile)
	if err != nil {
		return fmt.Errorf("server: listen: %w", err)
	}
	if err := errors.Join(s.Err(), o.Check()); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("server: listen: %w", err)
	}
	ctx, stop := notifyContext(ctx)
	defer stop()
	if err := s.Start(ctx); err != nil {
		listener.Close()
		return unlessEnded(ctx, err)
	}
	log := s.log
	if log == nil {
		log = slog.Default()
	}
	handler, err := s.Handler(&o.HandlerOptions)
	if err != nil {
		listener.Close()
		return err
	}
	others := http.NotFoundHandler()
	if o.Auth != nil {
		others = o.Auth.Handler(nil)
	}
	web := endpoint.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == o.Path {
			handler.ServeHTTP(w, r)
		} else {
			endpoint.ServeShort(others, w, r)
		}
	}), config, cmp.Or(o.Timeouts.Stall, transport.DefaultStallTimeout), log)
	scheme := "http"
	if config != nil {
		scheme = "https"
	}
	log.Info("server started", "url", scheme+"://"+listener.Addr().String()+o.Path)
	failed := make(chan error, 1)
	go func() { failed <- endpoint.Serve(web, listener) }() // ends with web
	select {
	case err = <-failed:
		err = fmt.Errorf("server: listen: %w", err)
	case <-ctx.Done():
	}
	stop() // a second signal ends the process
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace+s.cfg.Limits.Drain)
	defer cancel()
	err = errors.Join(err, s.shutdown(grace))
	handler.Shutdown(grace)
	if web.Shutdown(grace) != nil {
		web.Close() // of connections that have not ended in time
	}
	return err
}

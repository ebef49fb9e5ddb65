// Package endpoint opens what a server serves on its own: standard input and output, and a TCP
// address over HTTP.
package endpoint

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
)

// Limits of time of a connection: how long the header of a request may take to arrive, and how long
// it may have no request.
const (
	HeaderTimeout = 10 * time.Second
	IdleTimeout   = 2 * time.Minute
)

// Stdio returns the connection over standard input and output. It sets [os.Stdout] to [os.Stderr].
func Stdio() transport.Conn { return stdio.Server(stdio.Options{}) }

// NewServer returns an HTTP server whose connections end if they bring no request, or accept no
// data for the duration stall. Over HTTP/2, the deadlines that a handler sets do not end a write
// while the connection accepts no data. config is nil without TLS. log receives the errors that the
// server does not return, such as those of TLS.
func NewServer(h http.Handler, config *tls.Config, stall time.Duration, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, TLSConfig: config, ReadHeaderTimeout: HeaderTimeout, IdleTimeout: IdleTimeout, ConnContext: connContext,
		HTTP2: &http.HTTP2Config{WriteByteTimeout: stall}, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Serve serves the connections of l until the server ends. Without TLS, it notices at once that the
// client of a request has disconnected.
func Serve(s *http.Server, l net.Listener) error {
	if s.TLSConfig != nil {
		return s.ServeTLS(l, "", "")
	}
	return s.Serve(newListener(l))
}

// ServeShort serves a request that h neither reads nor answers at length. It limits the time in
// which the rest of the request must arrive and the client accept the response.
func ServeShort(h http.Handler, w http.ResponseWriter, r *http.Request) {
	conn := http.NewResponseController(w)
	end := time.Now().Add(HeaderTimeout)
	conn.SetReadDeadline(end)
	conn.SetWriteDeadline(end)
	h.ServeHTTP(w, r)
}

// TLSConfig returns config with the certificate and the private key in two files. Without files, it
// returns config, which is nil for a server without TLS.
func TLSConfig(config *tls.Config, certFile, keyFile string) (*tls.Config, error) {
	if certFile == "" && keyFile == "" {
		return config, nil
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	out := new(tls.Config)
	if config != nil {
		out = config.Clone()
	}
	out.Certificates = append(out.Certificates, pair)
	return out, nil
}

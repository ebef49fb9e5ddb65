package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// urlHandler is a slog.Handler that sends the URL of a started server to a channel.
type urlHandler struct {
	slog.Handler
	urls chan string
}

func (h urlHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h urlHandler) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if r.Level == slog.LevelInfo && a.Key == "url" {
			h.urls <- a.Value.String()
		}
		return true
	})
	return nil
}

// listening is a server that serves HTTP.
type listening struct {
	url    string
	cancel context.CancelFunc
	ended  chan error // result of ListenAndServe
}

// listen serves HTTP at a free port.
func listen(t *testing.T, cfg *server.Options, o *server.ListenOptions, add func(*server.Server)) *listening {
	t.Helper()
	urls := make(chan string, 1)
	cfg.Logger = slog.New(urlHandler{slog.DiscardHandler, urls})
	s := server.New("s", "1", cfg)
	add(s)
	ctx, cancel := context.WithCancel(t.Context())
	l := &listening{cancel: cancel, ended: make(chan error, 1)}
	go func() { l.ended <- s.ListenAndServe(ctx, "127.0.0.1:0", o) }() // ends with ctx
	select {
	case l.url = <-urls:
	case err := <-l.ended:
		t.Fatal(err)
	}
	return l
}

func addHi(s *server.Server) { server.AddTool(s, "hi", "", sayHi, server.Durable()) }

// When ctx ends, a running call is answered, and the Manager of the tasks is closed.
func TestListenAndServeEndsInOrder(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	var s *server.Server
	path := "/" + rand.Text()
	l := listen(t, &server.Options{Tasks: task.Options{Store: memory.New()}}, &server.ListenOptions{Path: path}, func(of *server.Server) {
		s = of
		server.AddTool(s, "wait", "", func(context.Context, *server.Call, struct{}) (string, error) {
			close(begun)
			<-release
			return "answered", nil
		})
	})
	if !strings.HasPrefix(l.url, "http://127.0.0.1:") || !strings.HasSuffix(l.url, path) {
		t.Errorf("URL %s", l.url)
	}
	other, err := http.Get(strings.TrimSuffix(l.url, path))
	if err != nil {
		t.Fatal(err)
	}
	other.Body.Close()
	if other.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %s", other.Status)
	}
	c, err := client.Dial(t.Context(), l.url, &client.Options{Session: session.Options{Revisions: session.Revisions()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Server().Capabilities.Tasks == nil || c.Server().Capabilities.Tasks.List != nil {
		t.Errorf("capability of a client without a principal: %+v", c.Server().Capabilities.Tasks)
	}
	answers := make(chan string, 1)
	go func() { // ends with the answer
		result, err := c.CallTool(t.Context(), "wait", nil)
		if err != nil {
			answers <- err.Error()
			return
		}
		answers <- result.Content[0].(*mcp.TextContent).Text
	}()
	<-begun
	l.cancel()
	close(release)
	if got := <-answers; got != "answered" {
		t.Errorf("running call: %s", got)
	}
	if err := <-l.ended; err != nil {
		t.Error(err)
	}
	if _, err := s.Tasks().Get(t.Context(), "", "x", nil); !errors.Is(err, task.ErrClosed) {
		t.Errorf("the Manager: %v", err)
	}
	// Another process may have opened the port again. It does not know the path.
	if late, err := http.Get(l.url); err == nil {
		late.Body.Close()
		if late.StatusCode != http.StatusNotFound {
			t.Errorf("a request after the end: %s", late.Status)
		}
	}
}

// certificate writes a certificate for 127.0.0.1 and its key, and returns the files and a pool with
// the certificate.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile:  {Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AddCert(must(x509.ParseCertificate(der)))
	return certFile, keyFile, pool
}

// A client that disconnects cancels its call, even if it has sent a part of the next request.
func TestDisconnectOfPipeliningClientCancelsCall(t *testing.T) {
	begun, cancelled := make(chan struct{}), make(chan struct{})
	l := listen(t, &server.Options{}, &server.ListenOptions{HandlerOptions: streamable.HandlerOptions{Streams: streamable.Streams{KeepAlive: -1}}}, func(s *server.Server) {
		server.AddTool(s, "wait", "", func(ctx context.Context, _ *server.Call, _ struct{}) (string, error) {
			close(begun)
			<-ctx.Done()
			close(cancelled)
			return "", ctx.Err()
		})
	})
	host := strings.TrimSuffix(strings.TrimPrefix(l.url, "http://"), "/mcp")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: wait\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body)
	<-begun
	fmt.Fprint(conn, "P")
	conn.Close()
	<-cancelled
	l.cancel()
	if err := <-l.ended; err != nil {
		t.Error(err)
	}
}

func TestListenAndServeSpeaksTLS(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	pair := must(tls.LoadX509KeyPair(certFile, keyFile))
	for name, o := range map[string]*server.ListenOptions{
		"files":  {CertFile: certFile, KeyFile: keyFile, Path: "/tools"},
		"config": {TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, Path: "/tools"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Access.Principal = func(*http.Request) (string, error) { return "ada", nil }
			l := listen(t, &server.Options{Tasks: task.Options{Store: memory.New()}}, o, addHi)
			if !strings.HasPrefix(l.url, "https://") || !strings.HasSuffix(l.url, "/tools") {
				t.Errorf("URL %s", l.url)
			}
			web := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
			defer web.CloseIdleConnections()
			var options client.Options
			options.Session.Revisions = session.Revisions()
			options.HTTP.Options = httpclient.Options{HTTP: &http.Client{Transport: web}}
			c, err := client.Dial(t.Context(), l.url, &options)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.StartTool(t.Context(), "hi", nil); err != nil {
				t.Error(err)
			}
			n := 0
			for _, err := range c.Tasks(t.Context()) {
				if err != nil {
					t.Error(err)
				}
				n++
			}
			if n != 1 {
				t.Errorf("%d tasks are listed", n)
			}
			c.Close()
			l.cancel()
			if err := <-l.ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestListenAndServeFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for want, try := range map[string]func(*server.Server) error{
		"server: listen: ": func(s *server.Server) error {
			return s.ListenAndServe(t.Context(), taken.Addr().String(), nil)
		},
		`server: listen: Path "tools" does not begin with a slash`: func(s *server.Server) error {
			return s.ListenAndServe(t.Context(), "127.0.0.1:0", &server.ListenOptions{Path: "tools"})
		},
		"server: listen: open missing.pem: ": func(s *server.Server) error {
			return s.ListenAndServe(t.Context(), "127.0.0.1:0", &server.ListenOptions{CertFile: "missing.pem", KeyFile: "missing.pem"})
		},
	} {
		s := newServer(t, server.Options{Logger: slog.New(slog.DiscardHandler)})
		if err := try(s); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s := newServer(t, server.Options{Tasks: task.Options{Store: memory.New()}, Logger: slog.New(slog.DiscardHandler)})
	if err := s.ListenAndServe(ended, "127.0.0.1:0", nil); err != nil {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestHandlerUsesOptions(t *testing.T) {
	for _, o := range []*streamable.HandlerOptions{nil, {Stateless: true}} {
		s := newServer(t, server.Options{})
		h := must(s.Handler(o))
		w := postInitialize(h)
		if id := w.Header().Get("Mcp-Session-Id"); w.Code != http.StatusOK || (id == "") != (o != nil) {
			t.Errorf("status %d, session %q", w.Code, id)
		}
		h.Close()
	}
}

// postInitialize sends initialize to a handler.
func postInitialize(h http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "http://localhost/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`))
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

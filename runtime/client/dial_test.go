package client_test

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/auth"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// refusing is a RoundTripper for an address at which no server listens.
type refusing struct{ attempts int }

func (r *refusing) RoundTrip(*http.Request) (*http.Response, error) {
	r.attempts++
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// Dial does not guess what a server supports that it has not reached, and does not retry a refused
// connection.
func TestDialNamesCause(t *testing.T) {
	for era, revisions := range map[string][]mcp.Revision{"all": nil, "sessions": session.Revisions(), "without sessions": session.ModernRevisions()} {
		t.Run(era, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nobody := new(refusing)
				_, err := client.Dial(t.Context(), "http://127.0.0.1:9/mcp", &client.Options{
					Session: session.Options{Revisions: revisions}, HTTP: streamable.ClientOptions{Options: httpclient.Options{HTTP: &http.Client{Transport: nobody}}},
				})
				if !errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, session.ErrNotModern) || strings.Contains(err.Error(), "lost") || nobody.attempts != 1 {
					t.Errorf("got %v after %d attempts, want that the connection is refused", err, nobody.attempts)
				}
			})
			_, err := client.Dial(t.Context(), "http://127.0.0.1:9/mcp", &client.Options{
				Session: session.Options{Revisions: revisions}, Auth: client.Token(auth.NewSecret("abc\n")),
			})
			if err == nil || errors.Is(err, session.ErrNotModern) || strings.Contains(err.Error(), "lost") || !strings.Contains(err.Error(), "control character") || strings.Contains(err.Error(), "abc") {
				t.Errorf("token with a line feed: got %v", err)
			}
		})
	}
}

// Package servertest connects clients to servers in memory, for tests of servers:
//
//	c := servertest.Connect(t, newServer(), nil)
//	result, err := c.CallTool(t.Context(), "greet", person{"Ada"})
package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/inmemory"
)

// endTimeout limits how long goroutines may take to end.
const endTimeout = 5 * time.Second

// Connect starts the server and returns a client that is connected to it in memory. Options may be
// nil. The test fails at once if the server cannot start, for example because of a mistake that
// [server.Server.Err] reports.
//
// Connect closes the client at the end of the test. With the last client of a server, it also shuts
// down the server. Then the test fails if a goroutine of the server, of its handlers and tasks, or of
// its clients has not ended within 5 seconds. That includes goroutines that handlers have started.
// Goroutines that the server started before the first Connect do not count. Idle connections of
// [http.DefaultTransport] are closed; close those of other transports in the test.
//
// Call Connect from the goroutine of the test. It may be called within a bubble of
// [testing/synctest].
func Connect(t testing.TB, s *server.Server, o *client.Options) *client.Client {
	t.Helper()
	c, sess, err := connect(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		t.Helper()
		if !within(func() { c.Close() }) || !within(func() { <-sess.Done() }) {
			t.Errorf("servertest: handlers still run after the client has disconnected:\n%s", goroutines(s))
			return
		}
		for _, other := range s.Sessions() {
			select {
			case <-other.Done():
			default:
				return // its own cleanup closes the server
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("servertest: shut down the server: %v", err)
		}
		if transport, ok := http.DefaultTransport.(*http.Transport); ok {
			transport.CloseIdleConnections() // of handlers
		}
		if left := remaining(s); left != "" {
			t.Errorf("servertest: goroutines outlive the server:\n%s", left)
		}
	})
	return c
}

// connect connects a client in a goroutine with the label of the server. Goroutines that this
// goroutine starts inherit the label.
func connect(ctx context.Context, s *server.Server, o *client.Options) (c *client.Client, sess *session.Session, err error) {
	done := make(chan struct{})
	go func() { // ends after the handshake
		defer close(done)
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels(labelKey, label(s))))
		here, there := inmemory.Pair(inmemory.Options{})
		if sess, err = s.Serve(pulled{there}); err != nil {
			err = errors.Join(err, here.Close())
			return
		}
		c, err = client.Connect(ctx, pulled{here}, o)
	}()
	<-done
	return c, sess, err
}

// pulled is a connection without the methods of [ability.Pusher]. Messages are therefore handled
// by goroutines of the session, which have the label, and not by goroutines that send them.
type pulled struct{ transport.Conn }

// Unwrap implements [transport.Unwrapper].
func (c pulled) Unwrap() transport.Conn { return c.Conn }

// labelKey is the key of the label of goroutines.
const labelKey = "mcpwire.server"

// label returns the value of the label of a server's goroutines.
func label(s *server.Server) string { return fmt.Sprintf("%p", s) }

// within reports whether f returns within endTimeout.
func within(f func()) bool {
	done := make(chan struct{})
	go func() { // ends with f
		defer close(done)
		f()
	}()
	timer := time.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// remaining waits until the goroutines of a server have ended. It returns the stacks of those that
// have not ended after its last pause.
func remaining(s *server.Server) string {
	for pause := time.Microsecond; pause < endTimeout; pause *= 2 {
		if goroutines(s) == "" {
			return ""
		}
		time.Sleep(pause)
	}
	return goroutines(s)
}

// goroutines returns the stacks of the goroutines of a server.
func goroutines(s *server.Server) string {
	var profile bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&profile, 1) // of all goroutines, with labels
	var found []string
	for block := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(block, fmt.Sprintf("%q:%q", labelKey, label(s))) {
			found = append(found, block)
		}
	}
	return strings.Join(found, "\n\n")
}

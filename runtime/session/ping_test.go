package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Proves PING-01, JSONRPC-06.
func TestPingsAreAnsweredAtOnce(t *testing.T) {
	t.Run("busy server, before initialize", bubble(func(t *testing.T) {
		s, p := serve(t, &session.Options{Limits: session.Limits{Requests: 1}, Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
			<-ctx.Done()
			return nil, nil
		}})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"ping"}
			< {"jsonrpc":"2.0","id":1,"result":{}}
		` + handshake + `
			> {"jsonrpc":"2.0","id":2,"method":"x"}
			> {"jsonrpc":"2.0","id":3,"method":"ping","params":{"_meta":{}}}
			< {"jsonrpc":"2.0","id":3,"result":{}}
		`)
		go s.Ping(t.Context()) // ends with the answer
		p.talk(`
			< {"jsonrpc":"2.0","id":1,"method":"ping"}
			> {"jsonrpc":"2.0","id":1,"result":{}}
		`)
	}))
	t.Run("client", bubble(func(t *testing.T) {
		_, p := connect(t, nil, mcp.ClientCapabilities{})
		p.talk(`
			> {"jsonrpc":"2.0","id":"p","method":"ping"}
			< {"jsonrpc":"2.0","id":"p","result":{}}
		`)
	}))
}

// Proves PING-02, PING-03, PING-04.
func TestPeerThatDoesNotAnswerPingsEndsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		s := session.Serve(conn, nil, &session.Options{Timeouts: session.Timeouts{KeepAlive: 10 * time.Second}, Limits: session.Limits{MissedPings: 1}})
		start := time.Now()
		for i := range 3 {
			time.Sleep(10 * time.Second)
			p.talk(`< {"jsonrpc":"2.0","id":` + string(rune('1'+i)) + `,"method":"ping"}`)
			if i < 2 {
				p.send(`{"jsonrpc":"2.0","id":` + string(rune('1'+i)) + `,"error":{"code":-32601,"message":"what?"}}`)
			}
		}
		if err := s.Wait(); err != session.ErrUnresponsive {
			t.Errorf("the session ends with %v", err)
		}
		if took := time.Since(start); took != 40*time.Second {
			t.Errorf("it ends after %v", took)
		}
		if err := s.Ping(t.Context()); !errors.Is(err, session.ErrClosed) || !errors.Is(err, session.ErrUnresponsive) {
			t.Errorf("got %v", err)
		}
	})
}

// Only pings in a row count.
func TestSessionSurvivesSingleMissedPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, conn := newPeer(t)
		s := session.Serve(conn, nil, &session.Options{Timeouts: session.Timeouts{KeepAlive: 10 * time.Second}})
		for i, answered := range []bool{false, true, false, true} {
			time.Sleep(10 * time.Second)
			id := string(rune('1' + i))
			var late string
			if i > 0 && i%2 == 1 {
				late = `< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"session: request timed out","requestId":` + string(rune('0'+i)) + `}}
				`
			}
			p.talk(late + `< {"jsonrpc":"2.0","id":` + id + `,"method":"ping"}`)
			if answered {
				p.send(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`)
			}
		}
		select {
		case <-s.Done():
			t.Error("the session has ended")
		default:
		}
		s.Close()
	})
}

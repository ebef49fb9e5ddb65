package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	mcpgo "github.com/mark3labs/mcp-go/client"
	mcpgotransport "github.com/mark3labs/mcp-go/client/transport"
	mcpgoserver "github.com/mark3labs/mcp-go/server"
	official "github.com/modelcontextprotocol/go-sdk/mcp"
)

// pooled returns a client that keeps a connection for every caller.
func pooled() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
}

// closing closes a client, its connections and the server.
func closing(c client, pool *http.Client, server *httptest.Server) client {
	inner := c.close
	c.close = sync.OnceValue(func() error {
		err := inner()
		pool.CloseIdleConnections()
		server.Close()
		return err
	})
	return c
}

func officialOverHTTP(json bool) opener {
	return func(ctx context.Context) (client, error) {
		s := officialServer()
		handler := official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s }, &official.StreamableHTTPOptions{JSONResponse: json})
		return officialDial(ctx, handler)
	}
}

// officialModern serves requests without sessions, which the official SDK does only if it serves no
// sessions.
func officialModern(ctx context.Context) (client, error) {
	s := officialServer()
	return officialDial(ctx, official.NewStreamableHTTPHandler(func(*http.Request) *official.Server { return s },
		&official.StreamableHTTPOptions{JSONResponse: true, Stateless: true}))
}

func officialDial(ctx context.Context, handler http.Handler) (client, error) {
	server, pool := httptest.NewServer(handler), pooled()
	c, err := officialClient(ctx, &official.StreamableClientTransport{Endpoint: server.URL, HTTPClient: pool}, tool)
	return closing(c, pool, server), err
}

func mcpgoOverHTTP(options ...mcpgo.ClientOption) opener {
	return func(ctx context.Context) (client, error) {
		server, pool := httptest.NewServer(mcpgoserver.NewStreamableHTTPServer(mcpgoServer())), pooled()
		inner, err := mcpgotransport.NewStreamableHTTP(server.URL, mcpgotransport.WithHTTPBasicClient(pool))
		if err != nil {
			return client{}, err
		}
		dialed := mcpgo.NewClient(inner, options...)
		if err := dialed.Start(ctx); err != nil {
			return client{}, err
		}
		c, err := mcpgoClient(ctx, dialed)
		return closing(c, pool, server), err
	}
}

// The messages of a call.
const (
	modernVersion = "2026-07-28"
	plainRequest  = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"weather","arguments":{"city":"Oslo","days":3}}}`
	modernRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"client","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},` +
		`"name":"weather","arguments":{"city":"Oslo","days":3}}}`
)

func modernHeader() http.Header {
	return http.Header{"Mcp-Protocol-Version": {modernVersion}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool}}
}

// plainOverHTTP sends the same bytes without decoding them.
func plainOverHTTP(request string, header http.Header) opener {
	return func(context.Context) (client, error) {
		response := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":%q}]}}`, answer)
		server, pool := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.Write(response)
		})), pooled()
		call := func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(request))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			maps.Copy(r.Header, header)
			answer, err := pool.Do(r)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			n, err := io.Copy(io.Discard, answer.Body)
			if err == nil && n != int64(len(response)) {
				err = errors.New("incomplete response")
			}
			return err
		}
		return closing(client{version: modernVersion, call: call, close: func() error { return nil }}, pool, server), nil
	}
}

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcpwire/mcpwire/mcp"
)

// raw is the client for all servers. It keeps one connection per session, with the stream.
type raw struct {
	server  *url.URL
	modern  bool // it listens, without a session
	streams []net.Conn
}

// open opens n sessions.
func (c *raw) open(count int) error {
	for range count {
		if err := c.openOne(); err != nil {
			return err
		}
	}
	return nil
}

func (c *raw) openOne() error {
	if c.modern {
		return c.listen()
	}
	hello := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"client","version":"1"}}}`, mcp.Revision20251125)
	conn, opened, err := c.send(http.MethodPost, "", hello)
	if err != nil {
		return err
	}
	conn.Close()
	session := opened.Header.Get("Mcp-Session-Id")
	if conn, _, err = c.send(http.MethodPost, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		return err
	}
	conn.Close()
	if conn, _, err = c.send(http.MethodGet, session, ""); err != nil {
		return err
	}
	c.streams = append(c.streams, conn)
	return nil
}

// listen opens a subscription, and reads the acknowledgment.
func (c *raw) listen() error {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":%q,`+
		`"io.modelcontextprotocol/clientInfo":{"name":"client","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`+
		`"notifications":{"toolsListChanged":true}}}`, mcp.Revision20260728)
	r := c.request(http.MethodPost, "", body)
	r.Header.Set("Mcp-Protocol-Version", string(mcp.Revision20260728))
	r.Header.Set("Mcp-Method", mcp.MethodSubscriptionsListen)
	conn, err := net.Dial("tcp", c.server.Host)
	if err != nil {
		return err
	}
	c.streams = append(c.streams, conn)
	if err := r.Write(conn); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return err
	}
	first, err := bufio.NewReader(answer.Body).ReadString('\n')
	if err == nil && !strings.Contains(first, "acknowledged") {
		err = fmt.Errorf("not acknowledged: %s", first)
	}
	return err
}

// send makes a request over a new connection. It reads the body of the response, unless it is a
// stream.
func (c *raw) send(method, session, body string) (net.Conn, *http.Response, error) {
	conn, err := net.Dial("tcp", c.server.Host)
	if err != nil {
		return nil, nil, err
	}
	answer, err := exchange(conn, c.request(method, session, body))
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return conn, answer, nil
}

func (c *raw) request(method, session, body string) *http.Request {
	r := &http.Request{Method: method, URL: c.server, Host: c.server.Host, Header: http.Header{}}
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", string(mcp.Revision20251125))
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if method == http.MethodPost {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Content-Type", "application/json")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	return r
}

func exchange(conn net.Conn, r *http.Request) (*http.Response, error) {
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		return nil, errors.New(answer.Status)
	}
	if r.Method == http.MethodPost {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	return answer, err
}

// close ends the streams.
func (c *raw) close() {
	for _, conn := range c.streams {
		conn.Close()
	}
}

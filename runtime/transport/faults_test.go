package transport_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
	"github.com/mcpwire/mcpwire/runtime/transport/sse"
	"github.com/mcpwire/mcpwire/runtime/transport/stdio"
	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

const maxMessage = 1500

// faults are answers to a request whose id is ID, with faults of existing peers.
var faults = []struct {
	name, answer string
	want         error // nil if the answer is accepted
}{
	{"byte order mark", "\uFEFF" + `{"jsonrpc":"2.0","id":ID,"result":{"roots":[],"tools":[]}}`, nil},
	{"id with a fraction of 0", `{"jsonrpc":"2.0","id":ID.0,"result":{"roots":[],"tools":[]}}`, nil},
	{"no result", `{"jsonrpc":"2.0","id":ID}`, jsonfault.Neither},
	{"null as result", `{"jsonrpc":"2.0","id":ID,"result":null}`, jsonfault.Result},
	{"a result and an error", `{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":""}}`, jsonfault.Both},
	{"batch of one", `[{"jsonrpc":"2.0","id":ID,"result":{}}]`, jsonfault.Batch},
	{"invalid UTF-8", `{"jsonrpc":"2.0","id":ID,"result":{"text":"` + "\xff" + `"}}`, jsonfault.UTF8},
	{"too long", `{"jsonrpc":"2.0","id":ID,"result":{"text":"` + strings.Repeat("x", 2*maxMessage) + `"}}`, transport.ErrTooLong},
	{"too long, with an id with a fraction of 0", `{"jsonrpc":"2.0","id":ID.0,"result":{"text":"` + strings.Repeat("x", 2*maxMessage) + `"}}`, transport.ErrTooLong},
}

// A call fails at once if its answer is invalid, although it has no timeout.
func TestInvalidAnswerFailsCallOfClient(t *testing.T) {
	for name, dial := range map[string]func(*testing.T, func(string) string) transport.Conn{
		"stdio": dialStdio, "Streamable HTTP, JSON": dialJSON, "Streamable HTTP, events": dialEvents, "HTTP with SSE": dialSSE,
	} {
		for _, fault := range faults {
			t.Run(name+"/"+fault.name, func(t *testing.T) {
				conn := dial(t, func(request string) string {
					m, err := jsonrpc.Parse([]byte(request))
					switch {
					case err != nil || m.Kind != jsonrpc.KindRequest:
						return ""
					case m.Method == "initialize":
						return `{"jsonrpc":"2.0","id":` + m.ID.String() + `,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}`
					}
					return strings.ReplaceAll(fault.answer, "ID", m.ID.String())
				})
				s, err := session.Connect(t.Context(), conn, nil, &session.Options{Timeouts: session.Timeouts{Request: -1}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if _, err = s.Call(t.Context(), "tools/list", nil); !errors.Is(err, fault.want) || (err == nil) != (fault.want == nil) {
					t.Errorf("got %v, want %v", err, fault.want)
				}
			})
		}
	}
}

// dialStdio connects to a server over pipes. answer returns the answer to a message, or "".
func dialStdio(_ *testing.T, answer func(string) string) transport.Conn {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() { // ends when the client closes its end
		defer out.Close()
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if text := answer(lines.Text()); text != "" {
				fmt.Fprintln(out, text)
			}
		}
	}()
	return stdio.New(fromServer, toServer, stdio.Options{MaxMessage: maxMessage})
}

func clientOptions() httpclient.Options {
	return httpclient.Options{Limits: httpclient.Limits{Message: maxMessage}}
}

func dialHTTP(t *testing.T, write func(http.ResponseWriter, *http.Request, string), answer func(string) string) transport.Conn {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := answer(string(body))
		switch {
		case r.Method != "POST":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case text == "":
			w.WriteHeader(http.StatusAccepted)
		default:
			write(w, r, text)
		}
	}))
	t.Cleanup(server.Close)
	conn, err := streamable.Dial(server.URL, streamable.ClientOptions{Options: clientOptions()})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func dialJSON(t *testing.T, answer func(string) string) transport.Conn {
	return dialHTTP(t, func(w http.ResponseWriter, _ *http.Request, text string) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, text)
	}, answer)
}

// The server of dialEvents does not end the stream after the answer.
func dialEvents(t *testing.T, answer func(string) string) transport.Conn {
	return dialHTTP(t, func(w http.ResponseWriter, r *http.Request, text string) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "id: 1\ndata: %s\n\n", text)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, answer)
}

func dialSSE(t *testing.T, answer func(string) string) transport.Conn {
	events := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			body, _ := io.ReadAll(r.Body)
			events <- answer(string(body))
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "event: endpoint\ndata: /post\n\n")
		for {
			http.NewResponseController(w).Flush()
			select {
			case text := <-events:
				if text != "" {
					fmt.Fprintf(w, "data: %s\n\n", text)
				}
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	conn, err := sse.Dial(t.Context(), server.URL, clientOptions())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// The text of errors that reach the server through a rejected POST, instead of the error itself.
func TestInvalidAnswerFailsCallOfServer(t *testing.T) {
	for name, open := range map[string]func(*testing.T, func(transport.Conn)) *rawClient{
		"stdio": openStdio, "Streamable HTTP": openHTTP, "HTTP with SSE": openSSE,
	} {
		for _, fault := range faults {
			t.Run(name+"/"+fault.name, func(t *testing.T) {
				asked := make(chan error, 1)
				handler := func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
					if req.Method == "x/ask" {
						_, err := req.Session.Call(ctx, "roots/list", nil)
						asked <- err
					}
					return nil, nil
				}
				c := open(t, func(conn transport.Conn) {
					s := session.Serve(conn, &mcp.InitializeResult{}, &session.Options{Handler: handler, Timeouts: session.Timeouts{Request: -1}})
					t.Cleanup(func() { s.Close() })
				})
				c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}`)
				c.next()
				c.send(`{"jsonrpc":"2.0","method":"notifications/initialized","params":null}`)
				c.send(`{"jsonrpc":"2.0","id":"a","method":"x/ask","params":null}`)
				m, err := jsonrpc.Parse([]byte(c.next()))
				if err != nil || m.Method != "roots/list" {
					t.Fatalf("got %v, %v", m, err)
				}
				c.send(strings.ReplaceAll(fault.answer, "ID", m.ID.String()))
				err = <-asked
				if (err == nil) != (fault.want == nil) || err != nil && !errors.Is(err, fault.want) && !strings.Contains(err.Error(), fault.want.Error()) {
					t.Errorf("got %v, want %v", err, fault.want)
				}
			})
		}
	}
}

// rawClient is a client without a session.
type rawClient struct {
	send func(text string)
	next func() (text string) // returns the next message
}

func openStdio(t *testing.T, serve func(transport.Conn)) *rawClient {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	serve(stdio.New(in, out, stdio.Options{MaxMessage: maxMessage}))
	t.Cleanup(func() { fromServer.Close() })
	lines := bufio.NewScanner(fromServer)
	return &rawClient{func(text string) { fmt.Fprintln(toServer, text) }, func() string { lines.Scan(); return lines.Text() }}
}

// events returns a function that returns the data of the next event that has any.
func events(r io.Reader) func() string {
	lines := bufio.NewScanner(r)
	return func() string {
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				return data
			}
		}
		return ""
	}
}

func openHTTP(t *testing.T, serve func(transport.Conn)) *rawClient {
	handler := streamable.NewHandler(func(_ *http.Request, conn transport.Conn) { serve(conn) }, streamable.HandlerOptions{Limits: streamable.Limits{Message: maxMessage}})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(func() { handler.Close() })
	var c rawClient
	id := ""
	c.send = func(text string) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", server.URL, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		if id != "" {
			req.Header["Mcp-Session-Id"] = []string{id}
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		if id == "" {
			id = resp.Header.Get("Mcp-Session-Id")
			body, _ := io.ReadAll(resp.Body)
			c.next = func() string { return string(body) }
		} else if resp.Header.Get("Content-Type") == "text/event-stream" {
			c.next = events(resp.Body)
		}
	}
	return &c
}

func openSSE(t *testing.T, serve func(transport.Conn)) *rawClient {
	handler := sse.NewHandler(func(_ *http.Request, conn transport.Conn) { serve(conn) }, sse.HandlerOptions{Limits: sse.Limits{Message: maxMessage}})
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(handler.Close)
	req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	stream, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Body.Close() })
	next := events(stream.Body)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	post, err := base.Parse(next())
	if err != nil {
		t.Fatal(err)
	}
	return &rawClient{func(text string) {
		resp, err := server.Client().Post(post.String(), "application/json", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}, next}
}

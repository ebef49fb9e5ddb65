package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/trace"
)

// line is the part of a recorded line that the tests compare.
type line struct{ Session, From, Event, Type, Message string }

func lines(t *testing.T, file *bytes.Buffer) (list []line) {
	t.Helper()
	names := map[string]string{"": ""}
	for text := range strings.Lines(file.String()) {
		var e struct {
			Session, From, Event, Type, Text string
			Size                             int
			Message                          json.RawMessage
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatalf("%v in %.200s", err, text)
		}
		if _, ok := names[e.Session]; !ok {
			names[e.Session] = fmt.Sprint(len(names))
		}
		l := line{names[e.Session], e.From, e.Event, e.Type, string(e.Message) + e.Text}
		if e.Size > 0 {
			l.Message = fmt.Sprintf("%d bytes", e.Size)
		}
		list = append(list, l)
	}
	return list
}

// mirrored returns the URL of a mirror for a server, and its recording.
func mirrored(t *testing.T, server http.HandlerFunc) (url string, file *bytes.Buffer) {
	t.Helper()
	upstream := httptest.NewServer(server)
	t.Cleanup(upstream.Close)
	file = new(bytes.Buffer)
	handler, err := Web(trace.NewLog(file), Server{URL: upstream.URL + "/mcp?key=1", Header: http.Header{"X-Added": {"yes"}}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		handler.Shutdown(context.Background())
		web.Close()
	})
	return web.URL + handler.Path(), file
}

// send makes an HTTP request and returns the response with its body.
func send(t *testing.T, method, url, session, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer a")
	if method == "POST" {
		r.Header.Set("Content-Type", "application/json")
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func TestMirrorForwardsHTTPUnchanged(t *testing.T) {
	const (
		initialize  = `{"jsonrpc":"2.0", "id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
		initialized = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}`
		list        = "{\"jsonrpc\":\"2.0\",\"id\":2,\n \"method\":\"tools/list\"}"
		stream      = ": hello\r\nid: 1\r\ndata:\r\n\r\nid: 2\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata:\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\r\n\r\n" +
			"event: other\ndata: {}\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"tools\":[]}}\n\ndata: torn"
		logged = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`
	)
	var requests []string
	url, file := mirrored(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, fmt.Sprintf("%s %s %s %s %s %s %s", r.Method, r.URL, r.Header.Get("Mcp-Session-Id"), r.Header.Get("Authorization"), r.Header.Get("X-Added"), r.Header.Get("X-Forwarded-For"), body))
		switch {
		case r.URL.Path == "/.well-known/x":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"jsonrpc":"2.0","id":9,"result":{}}`)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		case r.Header.Get("Mcp-Session-Id") == "unauthorized":
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			io.WriteString(w, "no token")
		case strings.Contains(string(body), "initialize"):
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "secret")
			io.WriteString(w, initialized)
		case strings.Contains(string(body), "method"):
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			io.Copy(w, iotest.OneByteReader(strings.NewReader(stream)))
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	for _, c := range []struct {
		method, url, session, body string
		status                     int
		want                       string
	}{
		{"POST", url, "", initialize, 200, initialized},
		{"POST", url, "secret", list, 200, stream},
		{"POST", url, "unauthorized", logged, 401, "no token"},
		{"POST", url, "secret", "bye", 202, ""},
		{"DELETE", url, "secret", "", 204, ""},
		{"GET", strings.TrimSuffix(url, "/mcp") + "/.well-known/x", "", "", 200, `{"jsonrpc":"2.0","id":9,"result":{}}`},
	} {
		resp, got := send(t, c.method, c.url, c.session, c.body)
		if resp.StatusCode != c.status || got != c.want {
			t.Errorf("%s %s: got %d (-want +got):\n%s", c.method, c.body, resp.StatusCode, cmp.Diff(c.want, got))
		}
		if c.status == 401 && resp.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("got the header %v", resp.Header)
		}
	}
	wantRequests := []string{
		"POST /mcp?key=1  Bearer a yes  " + initialize,
		"POST /mcp?key=1 secret Bearer a yes  " + list,
		"POST /mcp?key=1 unauthorized Bearer a yes  " + logged,
		"POST /mcp?key=1 secret Bearer a yes  bye",
		"DELETE /mcp?key=1 secret Bearer a yes  ",
		"GET /.well-known/x  Bearer a   ",
	}
	if diff := cmp.Diff(wantRequests, requests); diff != "" {
		t.Errorf("the server gets (-want +got):\n%s", diff)
	}
	want := []line{
		{"1", "client", "", "mcp.InitializeRequestParams", initialize},
		{"1", "server", "", "mcp.InitializeResult", initialized},
		{"1", "client", "", "", list},
		{"1", "server", "", "mcp.LoggingMessageNotificationParams", strings.Replace(logged, `,"method"`, ",\n\"method\"", 1)},
		{"1", "server", "", "mcp.ListToolsResult", `{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}`},
		{"2", "client", "", "mcp.LoggingMessageNotificationParams", logged},
		{"2", "", "HTTP POST: 401 Unauthorized", "", ""},
		{"1", "client", "", "", "bye"},
		{"1", "", "HTTP DELETE: session ended", "", ""},
	}
	if diff := cmp.Diff(want, lines(t, file)); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
	if strings.Contains(file.String(), "secret") || strings.Contains(file.String(), "Bearer") {
		t.Errorf("the recording contains a secret:\n%s", file)
	}
}

func TestMirrorRecordsRequestsWithoutSession(t *testing.T) {
	url, file := mirrored(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
	})
	for _, method := range []string{"initialize", "tools/list", "initialize", "ping"} {
		send(t, "POST", url, "", `{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`)
	}
	list := lines(t, file)
	for _, l := range list {
		if l.Session != "1" {
			t.Errorf("recorded: %+v", l)
		}
	}
	if len(list) != 8 || list[3].Type != "mcp.ListToolsResult" {
		t.Errorf("recorded: %+v", list)
	}
}

func TestMirrorForwardsLongBodies(t *testing.T) {
	text := `"` + strings.Repeat("x", transport.DefaultMaxMessage) + `"`
	kind := "application/json"
	url, file := mirrored(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.Write(body)
	})
	if _, got := send(t, "POST", url, "", text); got != text {
		t.Errorf("forwarded %d bytes as %d different ones", len(text), len(got))
	}
	kind = "text/event-stream"
	for _, event := range []string{"data:" + text + "\n\n", "data: 1\n\n"} {
		if _, got := send(t, "POST", url, "", event); got != event {
			t.Errorf("forwarded %d bytes as %d different ones", len(event), len(got))
		}
	}
	size := fmt.Sprintf("%d bytes", len(text))
	event := fmt.Sprintf("%d bytes", len(text)+len("data:"))
	want := []line{
		{"1", "client", "", "", size}, {"1", "server", "", "", size},
		{"1", "client", "", "", fmt.Sprintf("%d bytes", len(text)+len("data:\n\n"))}, {"1", "server", "", "", event},
		{"1", "client", "", "", "data: 1\n\n"}, {"1", "server", "", "", "1"},
	}
	if diff := cmp.Diff(want, lines(t, file)); diff != "" {
		t.Errorf("on record (-want +got):\n%s", diff)
	}
}

// Web pages cannot send requests with the credentials of -header.
func TestMirrorRejectsPagesOfOtherSites(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_mail"}}`
	for _, test := range []struct {
		name, method, path string
		header             map[string]string
		status             int
	}{
		{"a foreign host name", "POST", "/mcp", map[string]string{"Host": "evil.example"}, 403},
		{"a page of another site", "POST", "/mcp", map[string]string{"Origin": "https://evil.example"}, 403},
		{"another path, from a page of another site", "POST", "/admin", map[string]string{"Origin": "https://evil.example"}, 403},
		{"a picture in a page of another site", "GET", "/mcp", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{"a simple request", "POST", "/mcp", map[string]string{"Content-Type": "text/plain"}, 415},
		{"a form", "POST", "/mcp", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415},
		{"no content type", "POST", "/mcp", map[string]string{"Content-Type": ""}, 415},
		{"a page of this machine", "POST", "/mcp", map[string]string{"Origin": "http://localhost:6274"}, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			reached := false
			url, file := mirrored(t, func(w http.ResponseWriter, _ *http.Request) {
				reached = true
				w.Header().Set("Access-Control-Allow-Origin", "*")
			})
			r, err := http.NewRequestWithContext(t.Context(), test.method, strings.TrimSuffix(url, "/mcp")+test.path, strings.NewReader(call))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			for name, value := range test.header {
				r.Header.Set(name, value)
			}
			if host := test.header["Host"]; host != "" {
				r.Host = host
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != test.status || reached != (test.status == 200) || reached != (file.Len() > 0) {
				t.Errorf("got %s, the server was reached: %v; on record: %s", resp.Status, reached, file)
			}
			if got := resp.Header["Access-Control-Allow-Origin"]; reached && (len(got) != 1 || got[0] != test.header["Origin"]) {
				t.Errorf("pages of %q have access", got)
			}
		})
	}
}

func TestMirrorDropsUnknownSessions(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Mcp-Session-Id"), "unknown") {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer upstream.Close()
	handler, err := newMirror(trace.NewLog(io.Discard), Server{URL: upstream.URL + "/mcp"})
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Shutdown(t.Context())
	m := handler.mirror
	for i := range 20 {
		for _, id := range []string{"unknown", "known"} {
			r := httptest.NewRequest("GET", "/mcp", nil)
			r.Header.Set("Mcp-Session-Id", fmt.Sprint(id, i))
			m.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	if len(m.sessions) != 20 {
		t.Errorf("%d sessions are stored, want 20", len(m.sessions))
	}
	first := m.session("known0", false).Name()
	for i := range maxSessions {
		m.opened(m.log.Session(""), fmt.Sprint("other", i))
		m.session("known0", false)
	}
	if again := m.session("known0", false).Name(); len(m.sessions) != maxSessions || again != first {
		t.Errorf("%d sessions are stored; the session in use is named %s and then %s", len(m.sessions), first, again)
	}
}

func TestServerStringOmitsSecrets(t *testing.T) {
	for want, server := range map[string]Server{
		"https://x.example/mcp": {URL: "https://ann:SECRET@x.example/mcp?key=SECRET#SECRET"},
		"sh":                    {Command: []string{"sh", "-c", "true", "--token=SECRET"}},
	} {
		if got := server.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestMirrorRecordsUnreachableServer(t *testing.T) {
	unreachable := httptest.NewServer(nil)
	unreachable.Close()
	var file bytes.Buffer
	handler, err := Web(trace.NewLog(&file), Server{URL: unreachable.URL})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()
	resp, _ := send(t, "POST", web.URL+handler.Path(), "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	list := lines(t, &file)
	if resp.StatusCode != http.StatusBadGateway || len(list) != 2 || !strings.HasPrefix(list[1].Event, "HTTP POST: ") {
		t.Errorf("got %s, on record: %+v", resp.Status, list)
	}
}

package httpcore

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// A POST with the header of AcceptGzip has the same response as one without, for which package http
// asks for gzip itself.
func TestCompressedResponses(t *testing.T) {
	asked := make(chan []string, 1)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/old" {
			http.Redirect(w, r, "/new?"+r.URL.RawQuery, http.StatusTemporaryRedirect)
			return
		}
		asked <- r.Header["Accept-Encoding"]
		coding, text := r.URL.Query().Get("coding"), r.URL.Query().Get("text")
		w.Header()["Date"] = nil
		w.Header().Set("Content-Type", "text/plain")
		if coding != "" {
			w.Header().Set("Content-Encoding", coding)
		}
		if coding == "" || text != "text" {
			io.WriteString(w, text)
			return
		}
		z := gzip.NewWriter(w)
		io.WriteString(z, text)
		z.Close()
	}))
	defer web.Close()
	for name, target := range map[string]string{
		"compressed":             "?coding=gzip&text=text",
		"coding in upper case":   "?coding=GZIP&text=text",
		"not compressed":         "?text=text",
		"empty":                  "?coding=gzip",
		"invalid":                "?coding=gzip&text=invalid",
		"redirected":             "/old?coding=gzip&text=text",
		"compression turned off": "?text=text",
	} {
		t.Run(name, func(t *testing.T) {
			transport := &http.Transport{DisableCompression: name == "compression turned off"}
			defer transport.CloseIdleConnections()
			u, err := url.Parse(web.URL + target)
			if err != nil {
				t.Fatal(err)
			}
			e, err := New(u, httpclient.Options{HTTP: &http.Client{Transport: transport}})
			if err != nil {
				t.Fatal(err)
			}
			type outcome struct {
				Asked        []string
				Header       http.Header
				Length       int64
				Uncompressed bool
				Text         string
				Failed       error
			}
			var got [2]outcome
			for i := range got {
				h := http.Header{}
				if i == 1 {
					e.AcceptGzip(h)
				}
				resp, err := e.Do(t.Context(), Request{Method: http.MethodPost, URL: u, Header: h, Text: []byte("{}")})
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				got[i] = outcome{<-asked, resp.Header, resp.ContentLength, resp.Uncompressed, string(text), err}
			}
			if !reflect.DeepEqual(got[0], got[1]) {
				t.Errorf("package http: %+v\nDo: %+v", got[0], got[1])
			}
			if asks := got[1].Asked != nil; asks == transport.DisableCompression {
				t.Errorf("Accept-Encoding %q", got[1].Asked)
			}
		})
	}
}

// The header of the user passes through package http, which then decompresses by itself.
func TestAcceptGzipOnlyForPlainClient(t *testing.T) {
	u := &url.URL{Scheme: "http", Host: "localhost"}
	e, err := New(u, httpclient.Options{Prepare: func(*http.Request) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	if e.AcceptGzip(h); len(h) > 0 {
		t.Errorf("header %v", h)
	}
}

// An event stream may stay without an event for long.
func TestCompressedResponseBeginsBeforeItsBody(t *testing.T) {
	begun := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		http.NewResponseController(w).Flush()
		select {
		case <-begun:
		case <-r.Context().Done():
			return
		}
		z := gzip.NewWriter(w)
		defer z.Close()
		io.WriteString(z, "event")
		z.Flush()
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer web.Close()
	u, err := url.Parse(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(u, httpclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.own.CloseIdleConnections()
	h := http.Header{}
	e.AcceptGzip(h)
	resp, err := e.Do(t.Context(), Request{Method: http.MethodPost, URL: u, Header: h, Text: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() // the server still has the stream open
	close(begun)
	event := make([]byte, 5)
	if _, err := io.ReadFull(resp.Body, event); string(event) != "event" || err != nil {
		t.Errorf("got %q, %v", event, err)
	}
}

package httpcore

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport/httpclient"
)

// A network outage may end a connection without notice to the client.
func TestSilentHTTP2ConnectionIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := New(&url.URL{Scheme: "http", Host: "server"}, httpclient.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e.own.Protocols = new(http.Protocols)
		e.own.Protocols.SetUnencryptedHTTP2(true)
		e.own.DialContext = func(context.Context, string, string) (net.Conn, error) {
			client, silent := net.Pipe()
			go io.Copy(io.Discard, silent) // ends when the client closes the connection
			return client, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		_, err = e.Do(ctx, Request{Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "server"}, Header: http.Header{}, Text: []byte("{}")})
		if took := time.Since(start); err == nil || took > pingAfter+pingTimeout {
			t.Errorf("the request ends with %v after %v", err, took)
		}
		e.Close(nil)
	})
}

package client_test

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/runtime/client"
)

// Pictures, as far as it takes to know them.
const (
	png  = "\x89PNG\r\n\x1a\nrest"
	jpeg = "\xff\xd8\xff\xe0rest"
	webp = "RIFF\x00\x00\x00\x00WEBPVP8 "
	svg  = `<?xml version="1.0"?><!-- a --><svg xmlns="http://www.w3.org/2000/svg"/>`
)

// Proves ICON-01, ICON-02, ICON-03.
func TestIconsAreFetchedWithCaution(t *testing.T) {
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Error("an icon was fetched from another origin")
	}))
	defer other.Close()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Cookie", "Authorization", "Referer"} {
			if r.Header.Get(name) != "" {
				t.Errorf("the host of icons sees %s", name)
			}
		}
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		switch r.URL.Path {
		case "/png", "/moved":
			w.Header().Set("Content-Type", "text/html")
			w.Write([]byte(png))
		case "/near":
			http.Redirect(w, r, "/moved", http.StatusFound)
		case "/far":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://"+r.Host+"/png", http.StatusFound)
		case "/page":
			w.Header().Set("Content-Type", "image/png")
			w.Write([]byte("<html></html>"))
		case "/large":
			w.Write([]byte(png + strings.Repeat("x", 1<<20)))
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	icons := client.Icons{Transport: s.Client().Transport}
	base := func(text string) string {
		return "data:image/gif;base64," + base64.StdEncoding.EncodeToString([]byte(text))
	}
	for _, test := range []struct{ src, want string }{
		{s.URL + "/png", "image/png"},
		{s.URL + "/near", "image/png"},
		{strings.Replace(s.URL, "://", "://user:secret@", 1) + "/png", "image/png"},
		{base(png), "image/png"},
		{base(jpeg), "image/jpeg"},
		{base(webp), "image/webp"},
		{base(svg), "image/svg+xml"},
		{"data:image/svg+xml,%3Csvg%3E%3C/svg%3E", "image/svg+xml"},
		{s.URL + "/far", ""},
		{s.URL + "/plain", ""},
		{s.URL + "/page", ""},
		{s.URL + "/large", ""},
		{s.URL + "/none", ""},
		{strings.Replace(s.URL, "https", "http", 1) + "/png", ""},
		{"file:///etc/passwd", ""},
		{"javascript:alert(1)", ""},
		{"ftp://x.example/a.png", ""},
		{"ws://x.example/", ""},
		{"icon.png", ""},
		{"%", ""},
		{base("GIF89a"), ""},
		{base("<html><svg/></html>"), ""},
		{base("no picture"), ""},
		{"data:image/png;base64,*", ""},
		{"data:image/png", ""},
		{base(png + strings.Repeat("x", 1<<20)), ""},
	} {
		p, err := icons.Fetch(t.Context(), test.src)
		name := test.src[:min(len(test.src), 60)]
		switch {
		case test.want == "" && err == nil:
			t.Errorf("%s: got a %s", name, p.MIMEType)
		case test.want != "" && (err != nil || p.MIMEType != test.want || len(p.Data) == 0):
			t.Errorf("%s: got %v, %v", name, p, err)
		}
	}
}

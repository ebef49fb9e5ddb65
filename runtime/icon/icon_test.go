package icon_test

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/icon"
)

// Pictures with just the bytes needed to detect their type. Packages image/png and image/jpeg are
// not imported for encoding: they would register the decoders that package icon must register
// itself.
var (
	png  = large(1, 1)
	jpeg = "\xff\xd8" + "\xff\xc0\x00\x0b\x08\x00\x01\x00\x01\x01\x01\x11\x00" + "\xff\xda\x00\x02"
	webp = riff("VP8X", "\x00\x00\x00\x00\x07\x00\x00\x07\x00\x00")
	svg  = `<?xml version="1.0"?><!-- a --><svg xmlns="http://www.w3.org/2000/svg"/>`
)

// riff returns a WebP file of chunks, given as pairs of name and data.
func riff(chunks ...string) string {
	text := "WEBP"
	for i := 0; i < len(chunks); i += 2 {
		text += chunks[i] + string(binary.LittleEndian.AppendUint32(nil, uint32(len(chunks[i+1])))) + chunks[i+1]
		text += strings.Repeat("\x00", len(chunks[i+1])%2)
	}
	return "RIFF" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(text)))) + text
}

// large returns the header of a PNG of the given size.
func large(width, height uint32) string {
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("IHDR"), width), height)
	head = append(head, 8, 0, 0, 0, 0)
	text := append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0d"), head...)
	return string(binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(head)))
}

// animated returns a PNG with the given number of frames.
func animated(frames int) string {
	chunk := "\x00\x00\x00\x1a" + "fcTL" + strings.Repeat("\x00", 26+4)
	return large(8, 8) + strings.Repeat(chunk, frames)
}

// Proves ICON-01, ICON-02, ICON-03, ICON-05.
func TestFetchRejectsUnsafeIcons(t *testing.T) {
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Error("an icon was fetched from another origin")
	}))
	defer other.Close()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Cookie", "Authorization", "Referer"} {
			if r.Header.Get(name) != "" {
				t.Errorf("the request has header %s", name)
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
	icons := icon.Fetcher{Server: s.URL + "/mcp", Transport: s.Client().Transport}
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
		{base("<!-- made by hand -->" + svg[strings.Index(svg, "<svg"):]), "image/svg+xml"},
		{strings.TrimRight(base(png), "="), "image/png"},
		{"data:image/png;BASE64," + base64.StdEncoding.EncodeToString([]byte(png)), "image/png"},
		{base(large(4096, 4096)), "image/png"},
		{base(large(4097, 1)), ""},
		{base(large(1, 4097)), ""},
		{base(animated(100)), "image/png"},
		{base(animated(101)), ""},
		{base(riff("VP8X", "\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00")), ""},
		{base(riff("VP8 ", "\x00\x00\x00\x9d\x01\x2a\x10\x00\x10\x00")), "image/webp"},
		{base(riff("VP8 ", "\x00\x00\x00\x9d\x01\x2a\xff\x3f\x10\x00")), ""},
		{base(riff("VP8L", "\x2f\x07\xc0\x01\x00")), "image/webp"},
		{base(riff("VP8L", "\x2f\xff\xff\xff\x0f")), ""},
		{base(riff(append([]string{"VP8X", webp[20:30]}, slices.Repeat([]string{"ANMF", "xx"}, 101)...)...)), ""},
		{base(riff("VP8X", "\x00")), ""},
		{base("\x89PNG\r\n\x1a\nrest"), ""},
		{base("\xff\xd8\xff\xe0rest"), ""},
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
		kind, data, err := icons.Fetch(t.Context(), test.src)
		name := test.src[:min(len(test.src), 60)]
		switch {
		case test.want == "" && err == nil:
			t.Errorf("%s: got a %s", name, kind)
		case test.want != "" && (err != nil || kind != test.want || len(data) == 0):
			t.Errorf("%s: got %q with %d bytes, %v", name, kind, len(data), err)
		}
	}
}

// A server cannot make a client send requests to arbitrary hosts: icons come from the server's own
// origin, and from public addresses of trusted hosts.
//
// Proves ICON-01, ICON-04, HTTP-53.
func TestIconsComeFromTrustedHosts(t *testing.T) {
	visits := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visits++
		w.Write([]byte(png))
	}))
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	own := s.Client().Transport
	for _, test := range []struct {
		name  string
		icons icon.Fetcher
		fault string
	}{
		{"no host", icon.Fetcher{Transport: own}, "is neither that of the server nor a trusted one"},
		{"another server", icon.Fetcher{Server: "https://x.example/mcp", Transport: own}, "is neither"},
		{"another port", icon.Fetcher{Server: "https://127.0.0.1:1/mcp", Transport: own}, "is neither"},
		{"another scheme", icon.Fetcher{Server: "http://" + u.Host, Transport: own}, "is neither"},
		{"the server", icon.Fetcher{Server: s.URL, Transport: own}, ""},
		{"a trusted host", icon.Fetcher{Hosts: []string{u.Host}, Transport: own}, ""},
		{"a trusted host on this machine", icon.Fetcher{Hosts: []string{u.Host}}, "address 127.0.0.1 is not public"},
	} {
		visits = 0
		_, _, err := test.icons.Fetch(t.Context(), s.URL+"/icon.png")
		if test.fault == "" && (err != nil || visits != 1) || test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault) || visits != 0) {
			t.Errorf("%s: %d visits, %v", test.name, visits, err)
		}
	}
	for _, host := range []string{"10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "[::1]", "[fd00::1]", "[fe80::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::7f00:1]", "0.1.2.3", "198.18.0.1", "224.0.0.1", "255.255.255.255"} {
		icons := icon.Fetcher{Hosts: []string{host + ":443"}}
		if _, _, err := icons.Fetch(t.Context(), "https://"+host+"/icon.png"); err == nil || !strings.Contains(err.Error(), "is not public") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// Proves ICON-06.
func TestPickBySizeAndTheme(t *testing.T) {
	named := func(src string, theme mcp.IconTheme, sizes ...string) mcp.Icon {
		i := mcp.Icon{Src: src, Sizes: sizes}
		if theme != "" {
			i.Theme = &theme
		}
		return i
	}
	icons := []mcp.Icon{named("small", "", "16x16"), named("dark", "dark", "48x48"), named("light", "light", "48x48", "24x24"), named("large", "", "512X256"), named("odd", "", "x", "-1x-1", "9999999999x1")}
	for _, test := range []struct {
		size  int
		theme mcp.IconTheme
		want  string
	}{
		{16, "", "small"}, {48, "dark", "dark"}, {48, "light", "light"}, {20, "light", "light"}, {20, "dark", "dark"},
		{100, "", "large"}, {1000, "", "large"}, {0, "", "large"}, {0, "dark", "large"},
	} {
		if got := icon.Pick(icons, test.size, test.theme); got == nil || got.Src != test.want {
			t.Errorf("%d %s: got %+v, want %s", test.size, test.theme, got, test.want)
		}
	}
	if got := icon.Pick(append(icons, named("any", "", "any")), 48, "dark"); got.Src != "dark" {
		t.Errorf("got %s, want the first exact match", got.Src)
	}
	if got := icon.Pick(append(icons, named("any", "", "any")), 100, ""); got.Src != "any" {
		t.Errorf("got %s, want the scalable icon", got.Src)
	}
	if icon.Pick(nil, 1, "") != nil {
		t.Error("Pick(nil) returned an icon")
	}
}

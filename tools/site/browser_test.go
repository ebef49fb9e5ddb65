package main

import (
	"encoding/json"
	"image"
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "embed"

	"github.com/mcpwire/mcpwire/internal/browsertest"
)

//go:embed testdata/check.html
var check string

// A browser shows all pages at a width of 375 pixels without a scroll bar and without a message on its
// console, and the search finds a page and goes there.
func TestBrowserShowsSite(t *testing.T) {
	chromium := browsertest.Find(t)
	files := siteFiles(t)
	type report struct {
		Shown int      // pages
		Wide  []string // pages that are wider than the window
		Found []string // titles and addresses of what the search finds
		At    string   // the page that the search leads to
	}
	reports := make(chan report, 1)
	done := make(chan struct{}) // the first page waits for a picture until the report is there
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		text, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		switch path.Ext(name) {
		case ".svg":
			w.Header().Set("Content-Type", "image/svg+xml")
		case ".css":
			w.Header().Set("Content-Type", "text/css")
		case ".js":
			w.Header().Set("Content-Type", "text/javascript")
		}
		w.Write(text)
	})
	mux.HandleFunc("GET /check.html", func(w http.ResponseWriter, r *http.Request) {
		list, err := json.Marshal(names(files))
		if err != nil {
			t.Error(err)
		}
		w.Write([]byte(strings.Replace(check, "[]", string(list), 1)))
	})
	mux.HandleFunc("POST /report", func(w http.ResponseWriter, r *http.Request) {
		var got report
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		reports <- got
		close(done)
	})
	mux.HandleFunc("GET /done.svg", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-done:
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "image/svg+xml")
		w.Write([]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`))
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	_, console := chromium.Run(t, "--window-size=1280,900", "--enable-logging=stderr", "--dump-dom", server.URL+"/check.html")
	select {
	case got := <-reports:
		if got.Shown != len(names(files)) || len(got.Wide) > 0 {
			t.Errorf("%d of %d pages were shown; wider than 375 pixels: %q", got.Shown, len(names(files)), got.Wide)
		}
		if len(got.Found) == 0 || got.Found[0] != "Write a durable tool: howto/durable.html#write-a-durable-tool" || got.At != "/howto/durable.html" {
			t.Errorf("the search found %q, and went to %s", got.Found, got.At)
		}
	default:
		t.Fatal("the browser has reported nothing")
	}
	for line := range strings.Lines(console) {
		if strings.Contains(line, ":CONSOLE") {
			t.Error(line)
		}
	}
}

// The site needs no server: in a folder, it is dark for readers who want it so, and can be searched.
func TestBrowserShowsFolder(t *testing.T) {
	chromium := browsertest.Find(t)
	dir := t.TempDir()
	if err := buildSite(dir); err != nil {
		t.Fatal(err)
	}
	page := append(slices.Clone(siteFiles(t)["reference/errors.html"]), `<script>
		addEventListener("load", () => {
			const input = document.getElementById("search");
			input.value = "webhook";
			input.dispatchEvent(new Event("input"));
		});
	</script>`...)
	if err := os.WriteFile(filepath.Join(dir, "reference", "search.html"), page, 0o666); err != nil {
		t.Fatal(err)
	}
	shown, _ := chromium.Run(t, "--virtual-time-budget=10000", "--dump-dom", "file://"+dir+"/reference/search.html")
	if !strings.Contains(shown, `<li><a href="../howto/signals.html#`) {
		t.Errorf("the search has not found a page:\n%s", shown)
	}
	for scheme, isDark := range map[string]bool{"0": true, "1": false} {
		picture := filepath.Join(t.TempDir(), "page.png")
		chromium.Run(t, "--window-size=800,600", "--blink-settings=preferredColorScheme="+scheme, "--screenshot="+picture, "file://"+dir+"/tutorial/1-hello.html")
		f, err := os.Open(picture)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		shown, _, err := image.Decode(f)
		if err != nil {
			t.Fatal(err)
		}
		dark := 0
		for y := range shown.Bounds().Dy() {
			for x := range shown.Bounds().Dx() {
				if r, g, b, _ := shown.At(x, y).RGBA(); (r+g+b)/3 < 0x4000 {
					dark++
				}
			}
		}
		if all := shown.Bounds().Dx() * shown.Bounds().Dy(); (dark > all/2) != isDark {
			t.Errorf("colour scheme %s: %d of %d pixels are dark", scheme, dark, all)
		}
	}
}

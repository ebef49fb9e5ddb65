package interop

import (
	"bufio"
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/internal/browsertest"
)

// A client in Chromium, made with the official package, shows the page of examples/poll in a frame
// of another origin. A click on the page calls a tool. MCPWIRE_SCREENSHOTS names a folder for a
// screenshot.
func TestBrowserShowsViewOfServer(t *testing.T) {
	chromium := browsertest.Find(t)
	needPackages(t, "apps")
	script, err := exec.Command(filepath.Join("apps", "node_modules", ".bin", "esbuild"), filepath.Join("apps", "host.mjs"), "--bundle", "--format=esm").Output()
	if err != nil {
		t.Fatal(err)
	}
	sandbox := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The policy of the specification for a view without a CSP.
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "+
			"img-src 'self' data:; media-src 'self' data:; connect-src 'none'; object-src 'none'; frame-src 'self'")
		http.ServeFile(w, r, filepath.Join("apps", "sandbox.html"))
	}))
	defer sandbox.Close()

	target := startPoll(t)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL = target
		r.Out.Header.Del("Origin") // that of the test, which the server does not expect
	}, FlushInterval: -1}
	finished, finish := context.WithTimeout(t.Context(), time.Minute)
	defer finish()
	mux := http.NewServeMux()
	mux.Handle("/mcp", proxy)
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, filepath.Join("apps", "host.html")) })
	mux.HandleFunc("/host.js", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		w.Write(script)
	})
	mux.HandleFunc("/finish", func(http.ResponseWriter, *http.Request) { finish() })
	mux.HandleFunc("/wait", func(_ http.ResponseWriter, r *http.Request) { // the browser takes the document after that
		select {
		case <-finished.Done():
		case <-r.Context().Done():
		}
	})
	web := httptest.NewServer(mux)
	defer web.Close()

	document, _ := chromium.Open(t, web.URL+"/?sandbox="+url.QueryEscape(sandbox.URL), "700,500", "view.png")
	log := regexp.MustCompile(`(?s)<pre id="log">(.*?)</pre>`).FindStringSubmatch(document)
	if log == nil {
		t.Fatalf("the document has no log:\n%s", document)
	}
	want := strings.Join([]string{
		`extensions {"io.modelcontextprotocol/ui":{}}`,
		"tool poll ui://poll/view.html for the model",
		"tool vote ui://poll/view.html for the page",
		"page ui://poll/view.html text/html;profile=mcp-app",
		`initialized {"name":"poll","version":"1.0.0"}`,
		"drawn Where shall we eat?|Indoors0|Outdoors0",
		"voted Where shall we eat?|Indoors0|Outdoors1",
		"",
	}, "\n")
	if diff := cmp.Diff(want, html.UnescapeString(log[1])); diff != "" {
		t.Errorf("log of the client (-want +got):\n%s", diff)
	}
}

// startPoll starts the server examples/poll and returns the URL of its endpoint.
func startPoll(t *testing.T) *url.URL {
	t.Helper()
	program := filepath.Join(t.TempDir(), "poll")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/mcpwire/mcpwire/examples/poll").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "PORT=0")
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(errs).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := strings.Cut(strings.TrimSpace(line), "url=")
	target, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

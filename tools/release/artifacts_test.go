package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/licensecheck"
)

// The artifacts of a version are the same bytes in two folders. The image runs, and is small. The
// folders share the build cache: its keys have the path of a folder if what is compiled depends on it.
func TestArtifactsAreReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command line")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the binary of the image is for Linux")
	}
	const version = "v0.999.0"
	here := platform{"linux", runtime.GOARCH}
	r, err := open(t.Context(), ".")
	if err != nil {
		t.Skip("without git:", err)
	}
	commit, err := r.snapshot(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for range 2 {
		c, err := r.clone(t.Context(), t.TempDir(), commit)
		if err != nil {
			t.Fatal(err)
		}
		date := []string{"GIT_AUTHOR_DATE=2030-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2030-01-02T03:04:05Z"}
		if err := c.release(t.Context(), version, t.TempDir(), append(date, nobody...)); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := c.artifacts(t.Context(), dir, version, []platform{here}, io.Discard); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	sums := make([]string, 2)
	for i, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("the checksums differ:\n%s", diff)
	}

	t.Run("archive", func(t *testing.T) {
		files := untar(t, gunzip(t, readFile(t, filepath.Join(dirs[0], "mcpwire_"+version+"_linux_"+here.arch+".tar.gz"))))
		runsAs(t, files["mcpwire"], version)
		if len(files["LICENSE"]) == 0 {
			t.Error("the archive has no licence")
		}
	})
	t.Run("image", func(t *testing.T) {
		image := readFile(t, filepath.Join(dirs[0], "mcpwire_"+version+"_image.tar"))
		if len(image) > 20<<20 {
			t.Errorf("the image has %d bytes", len(image))
		}
		blobs := untar(t, image)
		type descriptor struct{ Digest string }
		decode := func(name string, v any) {
			t.Helper()
			if err := json.Unmarshal(blobs[name], v); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		blob := func(d descriptor) string { return "blobs/" + strings.Replace(d.Digest, ":", "/", 1) }
		var index struct{ Manifests []descriptor }
		decode("index.json", &index)
		var manifest struct {
			Config descriptor
			Layers []descriptor
		}
		decode(blob(index.Manifests[0]), &manifest)
		var config struct {
			Config struct{ User, Entrypoint any }
		}
		decode(blob(manifest.Config), &config)
		if diff := cmp.Diff(config.Config, struct{ User, Entrypoint any }{"65532:65532", []any{"/mcpwire"}}); diff != "" {
			t.Errorf("the image runs as (-got +want):\n%s", diff)
		}
		files := untar(t, gunzip(t, blobs[blob(manifest.Layers[0])]))
		runsAs(t, files["mcpwire"], version)
		if n := bytes.Count(files["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")); n < 100 {
			t.Errorf("the image has %d root certificates", n)
		}
	})
	t.Run("dependencies", func(t *testing.T) {
		modules, err := r.published(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range modules {
			name := "mcpwire"
			if m.folder != "" {
				name = strings.ReplaceAll(m.folder, "/", "-")
			}
			type component struct {
				Name, Version string
				Evidence      struct{ Licenses []any }
			}
			var list struct {
				BomFormat  string
				Metadata   struct{ Component component }
				Components []component
			}
			if err := json.Unmarshal(readFile(t, filepath.Join(dirs[0], name+"_"+version+".cdx.json")), &list); err != nil {
				t.Fatal(err)
			}
			if list.BomFormat != "CycloneDX" || list.Metadata.Component.Name != m.file.Module.Mod.Path || list.Metadata.Component.Version != version {
				t.Errorf("the list of %s is a %s of %+v", name, list.BomFormat, list.Metadata.Component)
			}
			if len(m.file.Require) > 0 && len(list.Components) == 0 {
				t.Errorf("the list of %s is empty", name)
			}
			for _, required := range m.file.Require {
				i := slices.IndexFunc(list.Components, func(c component) bool { return c.Name == required.Mod.Path })
				if i < 0 {
					continue // of a test
				}
				want := required.Mod.Version
				if r.own(required.Mod.Path) {
					want = version
				}
				if c := list.Components[i]; c.Version != want || len(c.Evidence.Licenses) == 0 {
					t.Errorf("the list of %s has %+v, want version %s and a licence", name, c, want)
				}
			}
		}
	})
}

// runsAs runs the command line, and checks its version.
func runsAs(t *testing.T, binary []byte, version string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "mcpwire")
	if err := os.WriteFile(name, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := execute(t.Context(), ".", nil, name, "version")
	if err != nil || !strings.HasPrefix(out, "mcpwire "+version+",") {
		t.Errorf("mcpwire version prints %q, %v", out, err)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func gunzip(t *testing.T, text []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func untar(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// The licences of all modules that users build allow it, and are found by their text.
func TestLicences(t *testing.T) {
	allowed := []string{
		"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0",
		"CC-BY-4.0", // of texts, beside one for code
	}
	r, err := open(t.Context(), ".")
	if err != nil {
		t.Skip("without git:", err)
	}
	modules, err := r.published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checked := make(map[string]bool)
	for _, m := range modules {
		out, err := execute(t.Context(), filepath.Dir(m.name), []string{"GOWORK=off"}, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Dir}}{{end}}", "./...")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out) {
			path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
			if path == "" || checked[path] {
				continue
			}
			checked[path] = true
			if r.own(path) {
				dir = r.root // the go command puts its licence into all modules
			}
			if found := licences(t, dir); len(found) == 0 || slices.ContainsFunc(found, func(l string) bool { return !slices.Contains(allowed, l) }) {
				t.Errorf("%s has the licences %q", path, found)
			}
		}
	}
	if len(checked) < 15 {
		t.Errorf("only %d modules were found", len(checked))
	}
}

// licences returns the licences of a module, by the rule of pkg.go.dev: a file counts if a licence
// covers three quarters of it.
func licences(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*", "License*"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				continue // a folder
			}
			if cover := licensecheck.Scan(text); cover.Percent >= 75 {
				for _, match := range cover.Match {
					found = append(found, match.ID)
				}
			}
		}
	}
	return found
}

// The pages of pkg.go.dev have the documentation of each module, its examples and its licence.
func TestDocumentationPages(t *testing.T) {
	if testing.Short() {
		t.Skip("builds pkgsite")
	}
	if runtime.GOOS != "linux" {
		t.Skip("needs an address of its own")
	}
	const version = "v0.999.0"
	r, err := open(t.Context(), ".")
	if err != nil {
		t.Skip("without git:", err)
	}
	proxy := t.TempDir()
	if err := r.proxy(t.Context(), proxy, version, io.Discard); err != nil {
		t.Fatal(err)
	}
	files := httptest.NewServer(http.FileServer(http.Dir(proxy)))
	defer files.Close()
	site := filepath.Join(t.TempDir(), "pkgsite")
	if _, err := execute(t.Context(), ".", []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-o", site, "golang.org/x/pkgsite/cmd/pkgsite"); err != nil {
		t.Fatal(err)
	}
	address := startSite(t, site, "GOPROXY="+files.URL, "GOMODCACHE="+t.TempDir())
	modules, err := r.published(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		path := m.file.Module.Mod.Path
		if m.folder == "" {
			path += "/runtime/server" // the root has no package
		}
		response, err := http.Get(address + "/" + path + "@" + version)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("%s: status %s, %v", path, response.Status, err)
			continue
		}
		for _, want := range []string{"Apache-2.0", `id="pkg-overview"`, "Documentation-exampleDetails"} {
			if !bytes.Contains(page, []byte(want)) {
				t.Errorf("the page of %s has no %s", path, want)
			}
		}
	}
}

// startSite runs pkgsite until the test ends, and returns its URL.
func startSite(t *testing.T, site string, env ...string) string {
	t.Helper()
	// pkgsite cannot choose a free port. On an address of the machine that only this test uses, all are.
	address := fmt.Sprintf("127.%d.%d.%d:8080", 1+rand.N(254), rand.N(256), 1+rand.N(254))
	cmd := exec.CommandContext(t.Context(), site, "-proxy", "-http", address)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), env...)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { // ends with the process
		cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
	for {
		select {
		case <-ended:
			t.Fatalf("pkgsite has ended:\n%s", log.String())
		case <-time.After(50 * time.Millisecond):
		}
		if conn, err := net.Dial("tcp", address); err == nil {
			conn.Close()
			return "http://" + address
		}
	}
}

// Workflows, with the one that mcpwire new writes, run actions of one commit only, the same in all of them,
// and scripts that exist.
func TestWorkflows(t *testing.T) {
	r, err := open(t.Context(), ".")
	if err != nil {
		t.Skip("without git:", err)
	}
	names, err := filepath.Glob(filepath.Join(r.root, ".github", "workflows", "*.yml"))
	if err != nil || len(names) < 3 {
		t.Fatal(names, err)
	}
	written := filepath.Join(r.root, "tools", "mcpwire", "internal", "project", "template", "all", ".github", "workflows", "test.yml.tmpl")
	commits := make(map[string]string) // by action
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	for _, name := range append(names, written) {
		text := string(readFile(t, name))
		for _, use := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(text, -1) {
			if !pinned.MatchString(use[1]) {
				t.Errorf("%s uses %s, which is not pinned by its hash", filepath.Base(name), use[1])
			}
			action, commit, _ := strings.Cut(use[1], "@")
			if known := commits[action]; known != "" && known != commit {
				t.Errorf("%s uses %s, and another workflow %s", filepath.Base(name), use[1], known)
			}
			commits[action] = commit
		}
		for _, script := range regexp.MustCompile(`run: ((?:\.ci|tools)/\S+)`).FindAllStringSubmatch(text, -1) {
			if info, err := os.Stat(filepath.Join(r.root, script[1])); err != nil || info.Mode()&0o100 == 0 {
				t.Errorf("%s runs %s, which is no program: %v", filepath.Base(name), script[1], err)
			}
		}
	}
}

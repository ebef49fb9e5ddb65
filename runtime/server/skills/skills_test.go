package skills_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/mcp"
	wire "github.com/mcpwire/mcpwire/mcp/ext/skills"
	"github.com/mcpwire/mcpwire/runtime/client"
	"github.com/mcpwire/mcpwire/runtime/internal/skillrules"
	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/servertest"
	"github.com/mcpwire/mcpwire/runtime/server/skills"
	"github.com/mcpwire/mcpwire/runtime/session"
)

func skillFile(name string, more ...string) string {
	return "---\nname: " + name + "\ndescription: About " + name + ".\n" + strings.Join(more, "") + "---\nRead references/FORMS.md.\n"
}

// tree returns a file system with two skills, one of which has another one inside.
func tree() fstest.MapFS {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"README.md":                   "no part of a skill",
		"pdf/SKILL.md":                skillFile("pdf", "metadata:\n  version: \"1.0\"\nlicense: 0123\n"),
		"pdf/references/FORMS.md":     "forms",
		"pdf/references/deep/one.txt": "1",
		"pdf/Q&A ü.md":                "questions",
		"pdf/raw":                     "\xff\x00",
		"pdf/lines.txt":               "\ufeffa\r\nb",
		"pdf/empty":                   "",
		"pdf/inner/SKILL.md":          skillFile("inner", "allowed-tools: Bash\n"),
		"pdf/inner/x.txt":             "x",
		"team/notes/SKILL.md":         skillFile("notes"),
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

func load(t *testing.T, files fs.FS, o *skills.Options) *skills.Catalog {
	t.Helper()
	c, err := skills.Load(files, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serve connects a client to a server with some sources.
func serve(t *testing.T, rev mcp.Revision, sources ...skills.Source) *client.Client {
	t.Helper()
	s := server.New("s", "1", nil)
	if err := skills.Add(s, sources...); err != nil {
		t.Fatal(err)
	}
	return servertest.Connect(t, s, options(rev))
}

func options(rev mcp.Revision) *client.Options {
	return &client.Options{Session: session.Options{Revisions: []mcp.Revision{rev}}}
}

func list(t *testing.T, c *client.Client) (all []wire.Skill, pages int) {
	t.Helper()
	p := &wire.ListSkillsRequestParams{}
	for {
		r, err := client.Call[*wire.ListSkillsResult](t.Context(), c, wire.MethodSkillsList, p)
		if err != nil {
			t.Fatal(err)
		}
		checkHints(t, c, r.ResultType, r.TTLMs, r.CacheScope)
		all, pages = append(all, r.Skills...), pages+1
		if r.NextCursor == nil {
			return all, pages
		}
		p.Cursor = r.NextCursor
	}
}

// checkHints checks the members that results have in the revision of a client, and in no other.
func checkHints(t *testing.T, c *client.Client, resultType *string, ttl *int64, scope *wire.CacheScope) {
	t.Helper()
	traits := c.Session().Traits()
	if (resultType != nil) != traits.Sessionless || (ttl != nil) != traits.CacheHints || (scope != nil) != traits.CacheHints {
		t.Errorf("resultType %v, ttlMs %v, cacheScope %v", resultType, ttl, scope)
	}
	if resultType != nil && *resultType != "complete" || ttl != nil && *ttl != 1500 || scope != nil && *scope != wire.CacheScopePrivate {
		t.Errorf("resultType %v, ttlMs %v, cacheScope %v", *resultType, *ttl, *scope)
	}
}

func get(c *client.Client, uri string) (*wire.GetSkillResult, error) {
	return client.Call[*wire.GetSkillResult](context.Background(), c, wire.MethodSkillsGet, &wire.GetSkillRequestParams{URI: uri})
}

func dir(c *client.Client, uri string, cursor *string) (*wire.ReadDirectoryResult, error) {
	return client.Call[*wire.ReadDirectoryResult](context.Background(), c, wire.MethodResourcesDirectoryRead, &wire.ReadDirectoryRequestParams{URI: uri, Cursor: cursor})
}

// read returns the bytes and the media type of a file.
func read(c *client.Client, uri string) (data, kind string, err error) {
	r, err := c.ReadResource(context.Background(), uri)
	if err != nil {
		return "", "", err
	}
	switch r := r.Contents[0].(type) {
	case *mcp.TextResourceContents:
		return r.Text, *r.MIMEType, nil
	case *mcp.BlobResourceContents:
		data, err := base64.StdEncoding.DecodeString(r.Blob)
		return string(data), *r.MIMEType, err
	}
	return "", "", errors.New("no contents")
}

func invalidParams(err error) bool { return jsonrpc.CodeOf(err) == jsonrpc.CodeInvalidParams }

func revisions(t *testing.T, f func(t *testing.T, rev mcp.Revision)) {
	for _, rev := range []mcp.Revision{mcp.Revision20251125, mcp.Revision20260728} {
		t.Run(string(rev), func(t *testing.T) { f(t, rev) })
	}
}

// Proves XSKILL-01, XSKILL-02, XSKILL-03, XSKILL-05, XSKILL-07, XSKILL-10, XSKILL-11, XSKILL-12,
// XSKILL-16, XSKILL-17, XSKILL-18, XSKILL-21, XSKILL-22, XSKILL-24, XSKILL-25, XSKILL-26,
// XSKILL-27, XSKILL-28, XSKILL-29, XSKILL-37, XSKILL-39, XSKILL-40, XSKILL-43, XSKILL-44,
// XSKILL-46, XSKILL-47 and XSKILL-80.
func TestCatalog(t *testing.T) {
	revisions(t, func(t *testing.T, rev mcp.Revision) {
		files := tree()
		c := serve(t, rev, load(t, files, &skills.Options{Prefix: "acme", TTL: 1500 * time.Millisecond}).Source())
		declared := c.Server().Capabilities
		if string(declared.Extensions) != `{"io.modelcontextprotocol/skills":{"directoryRead":true}}` || declared.Resources == nil {
			t.Errorf("declared %s, resources %v", declared.Extensions, declared.Resources)
		}
		all, _ := list(t, c)
		var uris []string
		for _, e := range all {
			uris = append(uris, e.URI)
			if err := e.Validate(wire.RevisionExtSkills); err != nil {
				t.Error(err)
			}
			if _, err := skillrules.Check(&e); err != nil {
				t.Error(err)
			}
			r, err := get(c, e.URI)
			if err != nil {
				t.Fatal(err)
			}
			checkHints(t, c, r.ResultType, r.TTLMs, r.CacheScope)
			if got, want := encode(t, &r.Skill), encode(t, &e); got != want {
				t.Errorf("got %s, listed %s", got, want)
			}
			if r.Extra.Has("nextCursor") {
				t.Error("skills/get has a cursor")
			}
			folder := strings.TrimPrefix(strings.TrimSuffix(e.URI, "SKILL.md"), "skill://acme/")
			var want []string
			for name := range files {
				if strings.HasPrefix(name, folder) {
					want = append(want, "skill://acme/"+skillrules.Escape(name))
				}
			}
			var got []string
			for _, f := range e.Resources.(*wire.SkillResourcesList).Value {
				got = append(got, f.URI)
				data, kind, err := read(c, f.URI)
				if err != nil || int64(len(data)) != f.Size || skillrules.Digest([]byte(data)) != f.Digest {
					t.Errorf("%s: %q, %v, want %v", f.URI, data, err, f)
				}
				if strings.HasSuffix(f.URI, ".md") && kind != "text/markdown" {
					t.Errorf("%s: %s", f.URI, kind)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		}
		if diff := cmp.Diff([]string{"skill://acme/pdf/SKILL.md", "skill://acme/pdf/inner/SKILL.md", "skill://acme/team/notes/SKILL.md"}, uris); diff != "" {
			t.Errorf("skills (-want +got):\n%s", diff)
		}
		if got := string(all[0].Frontmatter); got != `{"name":"pdf","description":"About pdf.","metadata":{"version":"1.0"},"license":123}` {
			t.Error(got)
		}
		var listed []string
		for r, err := range c.Resources(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			listed = append(listed, fmt.Sprint(r.URI, " ", r.Name, " ", *r.Description, " ", *r.MIMEType, " ", *r.Size, " ", r.Meta))
		}
		if diff := cmp.Diff([]string{
			"skill://acme/pdf/SKILL.md pdf About pdf. text/markdown 109 <nil>",
			"skill://acme/pdf/inner/SKILL.md inner About inner. text/markdown 92 <nil>",
			"skill://acme/team/notes/SKILL.md notes About notes. text/markdown 72 <nil>",
		}, listed); diff != "" {
			t.Errorf("resources (-want +got):\n%s", diff)
		}
		for _, uri := range []string{"skill://acme/pdf", "skill://acme/pdf/empty", "skill://acme/none/SKILL.md", "other://x/SKILL.md", "", "SKILL.md"} {
			if _, err := get(c, uri); !invalidParams(err) {
				t.Errorf("get %q: %v", uri, err)
			}
		}
	})
}

func encode(t *testing.T, v codec.Encoder) string {
	t.Helper()
	text, err := codec.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Proves XSKILL-41, XSKILL-58, XSKILL-59 and XSKILL-60.
func TestDirectories(t *testing.T) {
	revisions(t, func(t *testing.T, rev mcp.Revision) {
		files := tree()
		files["pdf/nothing"] = &fstest.MapFile{Mode: fs.ModeDir}
		c := serve(t, rev, load(t, files, &skills.Options{TTL: 1500 * time.Millisecond}).Source())
		for uri, want := range map[string][]string{
			"skill://pdf": {
				"empty application/octet-stream", "inner inode/directory", "lines.txt text/plain", "nothing inode/directory",
				"Q&A ü.md text/markdown", "raw application/octet-stream", "references inode/directory", "pdf text/markdown",
			},
			"skill://pdf/inner":           {"inner text/markdown", "x.txt text/plain"},
			"skill://pdf/references":      {"FORMS.md text/markdown", "deep inode/directory"},
			"skill://pdf/references/deep": {"one.txt text/plain"},
			"skill://team/notes":          {"notes text/markdown"},
			"skill://pdf/nothing":         nil,
		} {
			r, err := dir(c, uri, nil)
			if err != nil {
				t.Fatal(uri, err)
			}
			checkHints(t, c, r.ResultType, r.TTLMs, r.CacheScope)
			var got []string
			for _, child := range r.Resources {
				got = append(got, child.Name+" "+*child.MIMEType)
				if *child.MIMEType == "inode/directory" {
					if _, err := dir(c, child.URI, nil); err != nil {
						t.Error(err)
					}
				} else if _, _, err := read(c, child.URI); err != nil {
					t.Error(err)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" || r.Resources == nil {
				t.Errorf("%s (-want +got):\n%s", uri, diff)
			}
		}
		for _, uri := range []string{"skill://pdf/SKILL.md", "skill://pdf/", "skill://team", "skill://", "skill://.", "skill://none", "other://pdf"} {
			if _, err := dir(c, uri, nil); !invalidParams(err) {
				t.Errorf("%q: %v", uri, err)
			}
		}
	})
}

// A URI never becomes a path of the file system.
//
// Proves XSKILL-47 and XSKILL-48.
func TestHostileURIs(t *testing.T) {
	outside := t.TempDir()
	root := filepath.Join(outside, "root")
	writeTree(t, root, tree())
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := serve(t, mcp.Revision20260728, load(t, os.DirFS(root), nil).Source())
	for _, path := range []string{
		"pdf/../../secret", "pdf/..%2f..%2fsecret", "pdf/%2e%2e/%2e%2e/secret", "pdf/%2E%2E/../secret", "..", "../secret", "%2e%2e/secret",
		`pdf/..%5c..%5csecret`, "pdf/references%2fFORMS.md", "pdf/references%5cFORMS.md", "pdf//references/FORMS.md", "pdf/./SKILL.md",
		"pdf/SKILL.md%00", "pdf/%00", "pdf/SKILL.md/", "pdf/SKILL.md?x", "pdf/SKILL.md#x", "/pdf/SKILL.md", "pdf/%ff", "pdf/%zz", "README.md",
		strings.Repeat("a/", 1000), "pdf/" + strings.Repeat("%2e", 300),
	} {
		uri := "skill://" + path
		if _, _, err := read(c, uri); !invalidParams(err) {
			t.Errorf("read %q: %v", uri, err)
		}
		for _, uri := range []string{uri, strings.TrimSuffix(uri, "/SKILL.md")} {
			if _, err := dir(c, uri, nil); !invalidParams(err) && uri != "skill://pdf" {
				t.Errorf("directory %q: %v", uri, err)
			}
		}
	}
	// Another spelling of the same path is the same file.
	if data, _, err := read(c, "skill://pdf/Q%26A%20%C3%BC.md"); err != nil || data != "questions" {
		t.Error(data, err)
	}
}

func writeTree(t *testing.T, root string, files fstest.MapFS) {
	t.Helper()
	for name, f := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, f.Data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

// A skill that contains anything but files and folders is invalid. The other skills are served.
//
// Proves XSKILL-48.
func TestHostileTrees(t *testing.T) {
	for name, spoil := range map[string]func(root string) error{
		"link to a file outside": func(root string) error { return os.Symlink("/etc/passwd", filepath.Join(root, "pdf/link")) },
		"link to a file inside":  func(root string) error { return os.Symlink("raw", filepath.Join(root, "pdf/link")) },
		"link to a folder":       func(root string) error { return os.Symlink("/etc", filepath.Join(root, "pdf/link")) },
		"broken link":            func(root string) error { return os.Symlink("none", filepath.Join(root, "pdf/link")) },
		"pipe":                   func(root string) error { return makePipe(filepath.Join(root, "pdf/pipe")) },
		"backslash in a name":    func(root string) error { return os.WriteFile(filepath.Join(root, `pdf/a\b`), nil, 0o600) },
		"line break in a name":   func(root string) error { return os.WriteFile(filepath.Join(root, "pdf/a\nb"), nil, 0o600) },
		"name that is not UTF-8": func(root string) error { return os.WriteFile(filepath.Join(root, "pdf/\xff"), nil, 0o600) },
		"SKILL.md that is a link": func(root string) error {
			file := filepath.Join(root, "pdf/SKILL.md")
			return errors.Join(os.Rename(file, filepath.Join(root, "moved")), os.Symlink("../moved", file))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			files := tree()
			delete(files, "pdf/inner/SKILL.md")
			writeTree(t, root, files)
			if err := spoil(root); err != nil {
				skipUnsupported(t, err)
			}
			if _, err := skills.Load(os.DirFS(root), nil); err == nil || !strings.Contains(err.Error(), `folder "pdf"`) {
				t.Errorf("got %v", err)
			}
			var skipped []string
			c := serve(t, mcp.Revision20260728, load(t, os.DirFS(root), &skills.Options{Skip: func(dir string, err error) { skipped = append(skipped, dir) }, TTL: 1500 * time.Millisecond}).Source())
			if all, _ := list(t, c); len(all) != 1 || !slices.Equal(skipped, []string{"pdf"}) {
				t.Errorf("got %d skills, skipped %q", len(all), skipped)
			}
			if _, _, err := read(c, "skill://pdf/raw"); !invalidParams(err) {
				t.Error(err)
			}
		})
	}
}

// A file that differs from its published entry is not sent, whatever it has become.
func TestFileThatChanges(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(file string) error{
		"other bytes of the same length": func(file string) error { return os.WriteFile(file, []byte("FORMS"), 0o600) },
		"longer":                         func(file string) error { return os.WriteFile(file, []byte("forms!"), 0o600) },
		"shorter":                        func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"removed":                        os.Remove,
		"link":                           func(file string) error { return errors.Join(os.Remove(file), os.Symlink(secret, file)) },
		"folder":                         func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) },
		"pipe":                           func(file string) error { return errors.Join(os.Remove(file), makePipe(file)) },
		"folder above is a link": func(file string) error {
			dir := filepath.Dir(file)
			return errors.Join(os.RemoveAll(dir), os.Symlink(filepath.Dir(secret), dir), os.WriteFile(filepath.Join(filepath.Dir(secret), "FORMS.md"), []byte("other"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			writeTree(t, root, tree())
			catalog := load(t, os.DirFS(root), nil)
			c := serve(t, mcp.Revision20260728, catalog.Source())
			if err := change(filepath.Join(root, "pdf/references/FORMS.md")); err != nil {
				skipUnsupported(t, err)
			}
			const uri = "skill://pdf/references/FORMS.md"
			if _, _, err := read(c, uri); err == nil || invalidParams(err) || !strings.Contains(err.Error(), "internal error") && !strings.Contains(err.Error(), "has changed") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Proves XSKILL-08, XSKILL-09, XSKILL-11, XSKILL-22 and XSKILL-34.
func TestInvalidSkills(t *testing.T) {
	many := fstest.MapFS{"a/SKILL.md": {Data: []byte(skillFile("a"))}}
	for i := range 511 {
		many[fmt.Sprint("a/", i)] = &fstest.MapFile{}
	}
	exact := maps.Clone(many)
	many["a/one-more"] = &fstest.MapFile{}
	big := func(more int) fstest.MapFS {
		text := skillFile("a")
		return fstest.MapFS{"a/SKILL.md": {Data: []byte(text)}, "a/big": {Data: make([]byte, 16<<20-len(text)+more)}}
	}
	one := func(text string) fstest.MapFS { return fstest.MapFS{"a/SKILL.md": {Data: []byte(text)}} }
	fields := func(more string) fstest.MapFS { return one("---\nname: a\n" + more + "\n---\n") }
	long := strings.Repeat("ü", 1024)
	for _, test := range []struct {
		name, want string // "" for a valid skill
		files      fstest.MapFS
	}{
		{"512 files", "", exact},
		{"513 files", "513 files, the limit is 512", many},
		{"16 MiB", "", big(0)},
		{"more than 16 MiB", "16777217 bytes, the limit is 16777216", big(1)},
		{"name of another folder", `does not end in /b/SKILL.md`, one(skillFile("b"))},
		{"upper case", `name "A"`, one(skillFile("A"))},
		{"hyphens", `name "a--b"`, one(skillFile("a--b"))},
		{"hyphen at the end", `name "a-"`, one(skillFile("a-"))},
		{"no name", `name ""`, one("---\ndescription: b\n---\n")},
		{"number as a name", `/name`, one("---\nname: 1\ndescription: b\n---\n")},
		{"no front matter", "first line is not ---", one("# A\n")},
		{"no description", "description of 0 characters", fields("x: y")},
		{"long description", "", fields("description: " + long)},
		{"longer description", "description of 1025 characters", fields("description: a" + long)},
		{"number in metadata", "/metadata/version", fields("description: b\nmetadata:\n  version: 1.0")},
		{"null in metadata", `metadata "version" is null`, fields("description: b\nmetadata:\n  version:")},
		{"empty compatibility", "compatibility of 0 characters", fields("description: b\ncompatibility: ''")},
		{"duplicate key", `line 4: duplicate key "description"`, fields("description: b\ndescription: c")},
		{"alias", "line 4: anchors and aliases", fields("description: b\nx: *y")},
		{"infinity", "line 4: JSON has no number .inf", fields("description: b\nx: .inf")},
		{"in the root", "does not end in", fstest.MapFS{"SKILL.md": {Data: []byte(skillFile("a"))}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := skills.Load(test.files, nil)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	if _, err := skills.Load(fstest.MapFS{"SKILL.md": {Data: []byte(skillFile("a"))}}, &skills.Options{Prefix: "b/a"}); err != nil {
		t.Errorf("a folder that is a skill: %v", err)
	}
	for _, prefix := range []string{"/", "a/", "..", "a//b"} {
		if _, err := skills.Load(tree(), &skills.Options{Prefix: prefix}); err == nil {
			t.Errorf("prefix %q is valid", prefix)
		}
	}
}

// Proves XSKILL-38 and XSKILL-61.
func TestPages(t *testing.T) {
	files := fstest.MapFS{}
	for i := range 250 {
		name := fmt.Sprintf("s%03d", i)
		files[name+"/SKILL.md"] = &fstest.MapFile{Data: []byte(skillFile(name))}
		files["s000/"+name] = &fstest.MapFile{}
	}
	c := serve(t, mcp.Revision20260728,
		load(t, files, &skills.Options{TTL: 1500 * time.Millisecond}).Source(),
		load(t, tree(), &skills.Options{Prefix: "acme", TTL: time.Minute}).Source())
	all, pages := list(t, c)
	seen := map[string]bool{}
	for _, e := range all {
		seen[e.URI] = true
	}
	if len(all) != 253 || len(seen) != 253 || pages != 4 {
		t.Errorf("%d entries of %d skills on %d pages", len(all), len(seen), pages)
	}
	resources := 0
	for _, err := range c.Resources(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		resources++
	}
	if resources != 253 {
		t.Errorf("%d resources", resources)
	}
	children := map[string]bool{}
	pages = 0
	for cursor := (*string)(nil); pages == 0 || cursor != nil; pages++ {
		r, err := dir(c, "skill://s000", cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range r.Resources {
			children[child.URI] = true
		}
		cursor = r.NextCursor
	}
	if len(children) != 251 || pages != 3 {
		t.Errorf("%d children on %d pages", len(children), pages)
	}
	for _, cursor := range []string{"x", "2:", "-1:", "9999999999999999999:", "0"} {
		_, err := client.Call[*wire.ListSkillsResult](t.Context(), c, wire.MethodSkillsList, &wire.ListSkillsRequestParams{Cursor: &cursor})
		if err != nil && !invalidParams(err) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}

// A source of its own has skills that are made for a principal, listed or not, with files that
// change.
//
// Proves XSKILL-04, XSKILL-14, XSKILL-30 and XSKILL-45.
func TestOwnSource(t *testing.T) {
	reads := 0
	entry := func(uri, name string) *wire.Skill {
		return &wire.Skill{URI: uri, Frontmatter: json.RawMessage(`{"name":"` + name + `","description":"d"}`), Resources: &wire.SkillResourcesString{Value: wire.Dynamic}}
	}
	source := skills.Source{
		URI: "github://",
		List: func(_ context.Context, c *server.Call, cursor string) ([]wire.Skill, string, error) {
			switch cursor {
			case "":
				return []wire.Skill{*entry("github://o/r/a/SKILL.md", "a")}, "more", nil
			case "more":
				return nil, "", nil
			}
			return nil, "", fs.ErrInvalid
		},
		Get: func(_ context.Context, c *server.Call, uri string) (*wire.Skill, error) {
			switch uri {
			case "github://o/r/a/SKILL.md":
				return entry(uri, "a"), nil
			case "github://o/r/unlisted/SKILL.md":
				return entry(uri, "unlisted"), nil
			case "github://o/r/wrong/SKILL.md":
				return entry(uri, "other"), nil
			case "github://o/r/elsewhere/SKILL.md":
				return entry("skill://elsewhere/SKILL.md", "elsewhere"), nil
			case "github://o/r/nil/SKILL.md":
				return nil, nil
			}
			return nil, fmt.Errorf("no %q: %w", uri, fs.ErrNotExist)
		},
		Read: func(_ context.Context, c *server.Call, uri string) ([]byte, error) {
			if uri != "github://o/r/a/SKILL.md" {
				return nil, fs.ErrNotExist
			}
			reads++
			return fmt.Append(nil, "---\nname: a\ndescription: d\n---\n", c.Principal(), reads), nil
		},
	}
	c := serve(t, mcp.Revision20260728, source, load(t, tree(), nil).Source())
	if got := string(c.Server().Capabilities.Extensions); got != `{"io.modelcontextprotocol/skills":{}}` {
		t.Errorf("declared %s", got)
	}
	if _, err := dir(c, "skill://pdf", nil); jsonrpc.CodeOf(err) != jsonrpc.CodeMethodNotFound {
		t.Errorf("directory: %v", err)
	}
	for uri, ok := range map[string]bool{"github://o/r/a/SKILL.md": true, "github://o/r/unlisted/SKILL.md": true, "skill://pdf/SKILL.md": true} {
		if r, err := get(c, uri); (err == nil) != ok || err == nil && r.Skill.URI != uri {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for _, name := range []string{"wrong", "elsewhere", "nil"} {
		if _, err := get(c, "github://o/r/"+name+"/SKILL.md"); jsonrpc.CodeOf(err) != jsonrpc.CodeInternalError {
			t.Errorf("%s: %v", name, err)
		}
	}
	first, _, err := read(c, "github://o/r/a/SKILL.md")
	second, _, err2 := read(c, "github://o/r/a/SKILL.md")
	if err != nil || err2 != nil || first == second {
		t.Errorf("%q, %q, %v, %v", first, second, err, err2)
	}
	if _, _, err := read(c, "github://o/r/b"); !invalidParams(err) {
		t.Error(err)
	}
	var uris []string
	p := &wire.ListSkillsRequestParams{}
	for {
		r, err := client.Call[*wire.ListSkillsResult](t.Context(), c, wire.MethodSkillsList, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range r.Skills {
			uris = append(uris, e.URI)
		}
		if p.Cursor = r.NextCursor; p.Cursor == nil {
			break
		}
	}
	if len(uris) != 4 || !slices.Contains(uris, "github://o/r/a/SKILL.md") || slices.Contains(uris, "github://o/r/unlisted/SKILL.md") {
		t.Errorf("listed %q", uris)
	}
}

type notifications struct {
	mcp.ClientNotificationHandler
	notices chan string
}

func (n notifications) ResourceListChanged(context.Context, *mcp.NotificationParams) error {
	n.notices <- "list"
	return nil
}

func (n notifications) ResourceUpdated(_ context.Context, p *mcp.ResourceUpdatedNotificationParams) error {
	n.notices <- p.URI
	return nil
}

// Reload publishes all skills or none, and notifies clients of the changes.
func TestReload(t *testing.T) {
	files := tree()
	catalog := load(t, files, nil)
	s := server.New("s", "1", nil)
	if err := skills.Add(s, catalog.Source()); err != nil {
		t.Fatal(err)
	}
	notices := make(chan string, 100)
	o := options(mcp.Revision20251125)
	o.Notifications = notifications{notices: notices}
	c := servertest.Connect(t, s, o)
	if err := c.Subscribe(t.Context(), "skill://pdf/raw"); err != nil {
		t.Fatal(err)
	}
	if changes, err := catalog.Reload(); err != nil || !cmp.Equal(changes, skills.Changes{}) {
		t.Errorf("got %v, %v", changes, err)
	}
	files["pdf/raw"] = &fstest.MapFile{Data: []byte("new")}
	files["new/SKILL.md"] = &fstest.MapFile{Data: []byte("invalid")}
	delete(files, "team/notes/SKILL.md")
	if _, err := catalog.Reload(); err == nil {
		t.Error("an invalid skill is loaded")
	}
	if all, _ := listAny(t, c); len(all) != 3 {
		t.Errorf("%d skills after a reload that has failed", len(all))
	}
	files["new/SKILL.md"] = &fstest.MapFile{Data: []byte(skillFile("new"))}
	changes, err := catalog.Reload()
	want := skills.Changes{Added: []string{"skill://new/SKILL.md"}, Removed: []string{"skill://team/notes/SKILL.md"}, Changed: []string{"skill://pdf/SKILL.md"}}
	if diff := cmp.Diff(want, changes); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got := []string{<-notices, <-notices}
	slices.Sort(got)
	if !slices.Equal(got, []string{"list", "skill://pdf/raw"}) {
		t.Errorf("notices %q", got)
	}
	if data, _, err := read(c, "skill://pdf/raw"); err != nil || data != "new" {
		t.Error(data, err)
	}
}

func listAny(t *testing.T, c *client.Client) ([]wire.Skill, error) {
	t.Helper()
	r, err := client.Call[*wire.ListSkillsResult](t.Context(), c, wire.MethodSkillsList, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Skills, nil
}

func TestAddRejects(t *testing.T) {
	source := load(t, tree(), nil).Source()
	with := func(change func(s *skills.Source)) skills.Source {
		s := source
		change(&s)
		return s
	}
	for name, sources := range map[string][]skills.Source{
		"no sources":    {},
		"no URI":        {with(func(s *skills.Source) { s.URI = "" })},
		"no slash":      {with(func(s *skills.Source) { s.URI = "skill://a" })},
		"template":      {with(func(s *skills.Source) { s.URI = "skill://{a}/?/" })},
		"no function":   {with(func(s *skills.Source) { s.Get = nil })},
		"negative TTL":  {with(func(s *skills.Source) { s.TTL = -1 })},
		"one URI twice": {source, source},
	} {
		s := server.New("s", "1", nil)
		if err := skills.Add(s, sources...); err == nil || s.Err() == nil {
			t.Errorf("%s: %v, %v", name, err, s.Err())
		}
	}
	s := server.New("s", "1", nil)
	if err := errors.Join(skills.Add(s, source), s.Err()); err != nil {
		t.Error(err)
	}
	if err := skills.Add(s, source); !errors.Is(err, server.ErrExists) {
		t.Errorf("a second call: %v", err)
	}
	if skills.Add(nil, source) == nil {
		t.Error("a nil server is valid")
	}
}

// skipUnsupported skips a test on systems that may lack its kind of files. Linux has all of them.
func skipUnsupported(t *testing.T, err error) {
	t.Helper()
	if runtime.GOOS == "linux" {
		t.Fatal(err)
	}
	t.Skipf("no such file on %s: %v", runtime.GOOS, err)
}

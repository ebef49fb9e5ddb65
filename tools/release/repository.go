package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// A repository is a work tree with its modules.
type repository struct {
	root string // the absolute path of the work tree
	path string // the path of the module in root
}

// open returns the repository whose work tree has the folder dir.
func open(ctx context.Context, dir string) (*repository, error) {
	root, err := git(ctx, dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	m, err := readModule(root, "")
	if err != nil {
		return nil, err
	}
	return &repository{root: root, path: m.file.Module.Mod.Path}, nil
}

// A module is a go.mod file and what it says.
type module struct {
	folder string // relative to the root of the repository, with slashes; empty for the root
	name   string // the path of the go.mod file
	file   *modfile.File
}

func readModule(root, folder string) (*module, error) {
	name := filepath.Join(root, filepath.FromSlash(folder), "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	file, err := modfile.Parse(name, text, nil)
	if err != nil {
		return nil, err
	}
	return &module{folder, name, file}, nil
}

// isPublished reports whether users can import packages of m.
func (m *module) isPublished() bool {
	first, _, _ := strings.Cut(m.folder, "/")
	return first != "tools" && first != "examples"
}

// tag returns the name of the tag with which the go command finds a version of m.
func (m *module) tag(version string) string { return path.Join(m.folder, version) }

// write replaces the go.mod file.
func (m *module) write() error {
	m.file.Cleanup()
	text, err := m.file.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(m.name, text, 0o666)
}

// own reports whether path is that of a module of this repository.
func (r *repository) own(path string) bool {
	return path == r.path || strings.HasPrefix(path, r.path+"/")
}

// modules returns the modules of the repository. Each comes after those that it requires.
func (r *repository) modules(ctx context.Context) ([]*module, error) {
	out, err := git(ctx, r.root, "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	byPath := make(map[string]*module)
	for name := range strings.Lines(out) {
		folder := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSpace(name), "go.mod"), "/")
		m, err := readModule(r.root, folder)
		if err != nil {
			return nil, err
		}
		byPath[m.file.Module.Mod.Path] = m
	}
	var sorted []*module
	seen := make(map[string]bool)
	var add func(path string)
	add = func(path string) {
		m := byPath[path]
		if m == nil || seen[path] {
			return
		}
		seen[path] = true
		for _, required := range m.file.Require {
			add(required.Mod.Path)
		}
		sorted = append(sorted, m)
	}
	paths := make([]string, 0, len(byPath))
	for path := range byPath {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		add(path)
	}
	return sorted, nil
}

// published returns those of the modules that are published, in the same order.
func (r *repository) published(ctx context.Context) ([]*module, error) {
	all, err := r.modules(ctx)
	return slices.DeleteFunc(all, func(m *module) bool { return !m.isPublished() }), err
}

// newest returns the highest version that the root has a tag for, or "" if it has none.
func (r *repository) newest(ctx context.Context) (string, error) {
	out, err := git(ctx, r.root, "tag", "--list", "v*")
	if err != nil {
		return "", err
	}
	newest := ""
	for line := range strings.Lines(out) {
		if v := strings.TrimSpace(line); semver.IsValid(v) && (newest == "" || semver.Compare(v, newest) > 0) {
			newest = v
		}
	}
	return newest, nil
}

// clone returns a copy of the commit in a new folder, which is below dir.
func (r *repository) clone(ctx context.Context, dir, commit string) (*repository, error) {
	root := filepath.Join(dir, "clone")
	if _, err := git(ctx, r.root, "clone", "--quiet", "--shared", "--no-checkout", r.root, root); err != nil {
		return nil, err
	}
	for _, key := range []string{"user.name", "user.email"} { // which the repository may have set for itself
		if value, err := git(ctx, r.root, "config", "--get", key); err == nil {
			if _, err := git(ctx, root, "config", key, value); err != nil {
				return nil, err
			}
		}
	}
	if _, err := git(ctx, root, "checkout", "--quiet", "-B", "release", commit); err != nil {
		return nil, err
	}
	return &repository{root: root, path: r.path}, nil
}

// snapshot returns a commit with the files of the work tree. It is on no branch.
func (r *repository) snapshot(ctx context.Context, dir string) (string, error) {
	index := "GIT_INDEX_FILE=" + filepath.Join(dir, "index")
	for _, args := range [][]string{{"read-tree", "HEAD"}, {"add", "--all"}} {
		if _, err := execute(ctx, r.root, []string{index}, "git", args...); err != nil {
			return "", err
		}
	}
	tree, err := execute(ctx, r.root, []string{index}, "git", "write-tree")
	if err != nil {
		return "", err
	}
	return execute(ctx, r.root, nobody, "git", "commit-tree", tree, "-p", "HEAD", "-m", "Work tree")
}

// nobody is the environment for commits that are thrown away.
var nobody = []string{
	"GIT_AUTHOR_NAME=release", "GIT_AUTHOR_EMAIL=release@localhost",
	"GIT_COMMITTER_NAME=release", "GIT_COMMITTER_EMAIL=release@localhost",
}

// fetching returns the environment in which the go command fetches the modules of r by their tags, as
// anybody will after they are pushed, and other modules from the module cache or, if they are not there,
// as usual. What it fetches stays in the folder cache.
func (r *repository) fetching(ctx context.Context, cache string) ([]string, error) {
	out, err := execute(ctx, r.root, nil, "go", "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return nil, err
	}
	modules, proxy, _ := strings.Cut(out, "\n")
	own := r.path + "," + r.path + "/*"
	return []string{
		"GOMODCACHE=" + cache,
		"GOPROXY=" + fileURL(modules) + "/cache/download," + cmp.Or(proxy, "direct"),
		"GOPRIVATE=" + own, "GONOPROXY=" + own, "GONOSUMDB=" + own,
		"GOFLAGS=-modcacherw -trimpath", "GOWORK=off", "GOVCS=*:git",
		"GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url." + fileURL(r.root) + ".insteadOf",
		"GIT_CONFIG_VALUE_0=https://" + r.path,
	}, nil
}

// fileURL returns the URL of an absolute path.
func fileURL(name string) string {
	name = filepath.ToSlash(name)
	if !strings.HasPrefix(name, "/") { // C:/folder
		name = "/" + name
	}
	return "file://" + name
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	return execute(ctx, dir, nil, "git", args...)
}

// execute returns the output of a command, without the white space around it.
func execute(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s in %s: %w: %s", strings.Join(cmd.Args, " "), dir, err, bytes.TrimSpace(failure.Bytes()))
	}
	return string(bytes.TrimSpace(out)), nil
}

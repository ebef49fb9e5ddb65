package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// prepare commits and tags a release, as the comment of the package says.
func (r *repository) prepare(ctx context.Context, version string, now time.Time, out io.Writer) error {
	if err := r.check(ctx, "", version, io.Discard); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	c, err := r.clone(ctx, work, "HEAD")
	if err != nil {
		return err
	}
	if err := c.editFile("CHANGELOG.md", func(text string) (string, error) { return released(text, version, now) }); err != nil {
		return err
	}
	before, err := c.modules(ctx)
	if err != nil {
		return err
	}
	if err := c.release(ctx, version, filepath.Join(work, "modules"), nil); err != nil {
		return err
	}
	if err := c.develop(ctx, version, before); err != nil {
		return err
	}
	if _, err := git(ctx, r.root, "pull", "--quiet", "--ff-only", "--tags", c.root, "release"); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is committed and tagged. To publish it:\n\n\tgit push --atomic origin HEAD", version)
	for _, m := range before {
		if m.isPublished() {
			fmt.Fprint(out, " ", m.tag(version))
		}
	}
	fmt.Fprintln(out)
	return nil
}

// release commits the published modules with requirements of each other in a version, and tags them.
// The go command works in the folder cache. The variables of env are added to the environment of git.
func (r *repository) release(ctx context.Context, version, cache string, env []string) error {
	modules, err := r.published(ctx)
	if err != nil {
		return err
	}
	fetching, err := r.fetching(ctx, cache)
	if err != nil {
		return err
	}
	commit := func() error {
		if _, err := git(ctx, r.root, "add", "--all"); err != nil {
			return err
		}
		_, err := execute(ctx, r.root, env, "git", "commit", "--quiet", "--allow-empty", "-m", "Release "+version)
		return err
	}
	begin, err := git(ctx, r.root, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	// The checksums in go.sum are those of modules whose own go.sum is complete. So each module is
	// committed and tagged before those that require it.
	for _, m := range modules {
		if r.require(m, version) {
			for _, replaced := range m.file.Replace {
				if r.own(replaced.Old.Path) {
					if err := m.file.DropReplace(replaced.Old.Path, replaced.Old.Version); err != nil {
						return err
					}
				}
			}
			if err := m.write(); err != nil {
				return err
			}
			if _, err := execute(ctx, filepath.Dir(m.name), fetching, "go", "mod", "tidy"); err != nil {
				return err
			}
		}
		if err := commit(); err != nil {
			return err
		}
		if _, err := git(ctx, r.root, "tag", m.tag(version)); err != nil {
			return err
		}
	}
	// One commit has the same files, and so the same checksums.
	if _, err := git(ctx, r.root, "reset", "--quiet", "--soft", begin); err != nil {
		return err
	}
	if err := commit(); err != nil {
		return err
	}
	for _, m := range modules {
		tag := m.tag(version)
		if _, err := execute(ctx, r.root, env, "git", "tag", "--force", "--annotate", "-m", m.file.Module.Mod.Path+" "+version, tag); err != nil {
			return err
		}
	}
	return nil
}

// develop commits the replace directives that the modules had before a release.
func (r *repository) develop(ctx context.Context, version string, before []*module) error {
	for _, old := range before {
		m, err := readModule(r.root, old.folder)
		if err != nil {
			return err
		}
		if !r.require(m, version) {
			continue
		}
		for _, replaced := range old.file.Replace {
			if err := m.file.AddReplace(replaced.Old.Path, replaced.Old.Version, replaced.New.Path, replaced.New.Version); err != nil {
				return err
			}
		}
		if err := m.write(); err != nil {
			return err
		}
	}
	// The modules must be complete before the go command reads the first one of them.
	for _, m := range before {
		if _, err := execute(ctx, filepath.Join(r.root, filepath.FromSlash(m.folder)), []string{"GOWORK=off"}, "go", "mod", "tidy"); err != nil {
			return err
		}
	}
	_, err := git(ctx, r.root, "commit", "--quiet", "--all", "-m", "Use the modules of the work tree after "+version)
	return err
}

// require sets the version in which m requires modules of r, and reports whether it requires any.
func (r *repository) require(m *module, version string) bool {
	var requirements []*modfile.Require
	found := false
	for _, required := range m.file.Require {
		if r.own(required.Mod.Path) {
			required.Mod.Version = version
			found = true
		}
		requirements = append(requirements, required)
	}
	if found {
		m.file.SetRequireSeparateIndirect(requirements)
	}
	return found
}

// editFile replaces the text of a file of the repository.
func (r *repository) editFile(name string, edit func(string) (string, error)) error {
	name = filepath.Join(r.root, name)
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	changed, err := edit(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(changed), 0o666)
}

const unreleased = "\n## Unreleased\n"

// changes returns the section of a changelog for the next release.
func changes(changelog string) string {
	_, text, _ := strings.Cut(changelog, unreleased)
	text, _, _ = strings.Cut(text, "\n## ")
	return strings.TrimSpace(text)
}

// released returns a changelog in which the section for the next release is that of version.
func released(changelog, version string, date time.Time) (string, error) {
	if changes(changelog) == "" {
		return "", errNoChanges
	}
	heading := unreleased + "\n## " + strings.TrimPrefix(version, "v") + " - " + date.Format(time.DateOnly) + "\n"
	return strings.Replace(changelog, unreleased, heading, 1), nil
}

var errNoChanges = errors.New(`the section "Unreleased" of CHANGELOG.md is empty`)

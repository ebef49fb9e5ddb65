package main

import (
	"context"
	"errors"
	"fmt"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	modulepath "golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// check reports everything that stands in the way of a release of version. If version is empty, it
// prints the lowest version that the changes since base allow; if base is empty, it is the newest
// release.
func (r *repository) check(ctx context.Context, base, version string, out io.Writer) error {
	var faults []error
	if version != "" {
		if semver.Canonical(version) != version {
			return errVersion(version)
		}
		_, major, _ := modulepath.SplitPathVersion(r.path)
		if err := modulepath.CheckPathMajor(version, major); err != nil {
			faults = append(faults, fmt.Errorf("the path %s does not fit %s: %w", r.path, version, err))
		}
	}
	if dirty, err := git(ctx, r.root, "status", "--porcelain"); err != nil {
		return err
	} else if dirty != "" {
		faults = append(faults, fmt.Errorf("these changes are not committed:\n%s", dirty))
	}
	changelog, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	if changes(string(changelog)) == "" {
		faults = append(faults, errNoChanges)
	}
	if base == "" {
		if base, err = r.newest(ctx); err != nil {
			return err
		}
	}
	lowest := "v0.1.0"
	if base != "" {
		diff, err := r.diff(ctx, base)
		if err != nil {
			return err
		}
		fmt.Fprint(out, diff)
		lowest = diff.next(base)
		if version != "" && semver.Compare(version, lowest) < 0 {
			faults = append(faults, fmt.Errorf("%s must be at least %s, after %s and these changes of the API:\n%s", version, lowest, base, diff))
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	fmt.Fprintf(out, "The next version is %s or higher.\n", lowest)
	return nil
}

func errVersion(version string) error {
	return fmt.Errorf("%q is no version: want vX.Y.Z", version)
}

// A diff lists the changes of the API of all published modules, by package.
type diff struct{ incompatible, compatible []string }

func (d diff) String() string {
	var text strings.Builder
	for _, list := range []struct {
		title string
		lines []string
	}{{"Incompatible:", d.incompatible}, {"Compatible:", d.compatible}} {
		if len(list.lines) > 0 {
			fmt.Fprintf(&text, "%s\n  %s\n", list.title, strings.Join(list.lines, "\n  "))
		}
	}
	return text.String()
}

// next returns the lowest version for the changes since base. Until version 1, minor versions may
// break the API.
func (d diff) next(base string) string {
	var major, minor, patch int
	fmt.Sscanf(base, "v%d.%d.%d", &major, &minor, &patch)
	switch {
	case len(d.incompatible) > 0 && major > 0:
		return fmt.Sprintf("v%d.0.0", major+1)
	case len(d.incompatible)+len(d.compatible) > 0:
		return fmt.Sprintf("v%d.%d.0", major, minor+1)
	case semver.Prerelease(base) != "":
		return fmt.Sprintf("v%d.%d.%d", major, minor, patch)
	}
	return fmt.Sprintf("v%d.%d.%d", major, minor, patch+1)
}

// diff compares the API of the work tree with that of base.
func (r *repository) diff(ctx context.Context, base string) (diff, error) {
	before, err := r.packagesAt(ctx, base)
	if err != nil {
		return diff{}, err
	}
	after, err := r.packages(ctx, []string{"GOWORK=off"})
	if err != nil {
		return diff{}, err
	}
	var d diff
	for path, p := range before {
		short := strings.TrimPrefix(path, r.path+"/")
		now := after[path]
		if now == nil {
			d.incompatible = append(d.incompatible, short+": removed")
			continue
		}
		for _, change := range apidiff.Changes(p, now).Changes {
			line := short + ": " + change.Message
			if change.Compatible {
				d.compatible = append(d.compatible, line)
			} else {
				d.incompatible = append(d.incompatible, line)
			}
		}
	}
	for path := range after {
		if before[path] == nil {
			d.compatible = append(d.compatible, strings.TrimPrefix(path, r.path+"/")+": added")
		}
	}
	slices.Sort(d.incompatible)
	slices.Sort(d.compatible)
	return d, nil
}

// packagesAt is packages for a commit whose modules may require each other by their tags.
func (r *repository) packagesAt(ctx context.Context, commit string) (map[string]*types.Package, error) {
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	old, err := r.clone(ctx, work, commit)
	if err != nil {
		return nil, err
	}
	fetching, err := old.fetching(ctx, filepath.Join(work, "modules"))
	if err != nil {
		return nil, err
	}
	return old.packages(ctx, fetching)
}

// packages returns the packages of the published modules whose API is promised, by path.
func (r *repository) packages(ctx context.Context, env []string) (map[string]*types.Package, error) {
	modules, err := r.published(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[string]*types.Package)
	for _, m := range modules {
		loaded, err := packages.Load(&packages.Config{
			Context: ctx,
			Mode:    packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps,
			Dir:     filepath.Dir(m.name),
			Env:     append(os.Environ(), env...),
		}, "./...")
		if err != nil {
			return nil, err
		}
		for _, p := range loaded {
			if len(p.Errors) > 0 {
				return nil, fmt.Errorf("%s: %v", p.PkgPath, p.Errors[0])
			}
			if p.Name != "main" && promised(strings.TrimPrefix(p.PkgPath, r.path)) {
				all[p.PkgPath] = p.Types
			}
		}
	}
	return all, nil
}

// promised reports whether the API of a package is stable.
func promised(path string) bool {
	for element := range strings.SplitSeq(path, "/") {
		switch element {
		case "internal", "experimental", "tools", "examples":
			return false
		}
	}
	return true
}

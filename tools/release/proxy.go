package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	modulepath "golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// proxy writes a version of the published modules into dir, in the layout of a module proxy.
func (r *repository) proxy(ctx context.Context, dir, version string, out io.Writer) error {
	if semver.Canonical(version) != version {
		return errVersion(version)
	}
	work, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	commit, err := r.snapshot(ctx, work)
	if err != nil {
		return err
	}
	c, err := r.clone(ctx, work, commit)
	if err != nil {
		return err
	}
	if err := c.release(ctx, version, filepath.Join(work, "modules"), nobody); err != nil {
		return err
	}
	// In a new cache: the first one has versions of the commits on the way.
	fetching, err := c.fetching(ctx, filepath.Join(work, "published"))
	if err != nil {
		return err
	}
	modules, err := c.published(ctx)
	if err != nil {
		return err
	}
	for _, m := range modules {
		path := m.file.Module.Mod.Path
		text, err := execute(ctx, work, fetching, "go", "mod", "download", "-json", path+"@"+version)
		if err != nil {
			return err
		}
		var files struct{ Info, GoMod, Zip string }
		if err := json.Unmarshal([]byte(text), &files); err != nil {
			return err
		}
		escaped, err := modulepath.EscapePath(path)
		if err != nil {
			return err
		}
		folder := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
		if err := addVersion(folder, version, files.Info, files.GoMod, files.Zip); err != nil {
			return err
		}
		fmt.Fprintln(out, path, version)
	}
	return nil
}

// addVersion copies the files of a version into the folder of its module in a proxy.
func addVersion(folder, version string, files ...string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(name)), text, 0o666); err != nil {
			return err
		}
	}
	list := filepath.Join(folder, "list")
	text, err := os.ReadFile(list)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	versions := append(strings.Fields(string(text)), version)
	semver.Sort(versions)
	versions = slices.Compact(versions)
	if err := os.WriteFile(list, []byte(strings.Join(versions, "\n")+"\n"), 0o666); err != nil {
		return err
	}
	// Some clients of proxies ask for the latest version instead of for all.
	info, err := os.ReadFile(filepath.Join(folder, versions[len(versions)-1]+".info"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(filepath.Dir(folder), "@latest"), info, 0o666)
}

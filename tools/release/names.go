package main

import (
	"context"
	"fmt"
	"go/types"
	"io"
	"maps"
	"slices"
	"strings"
)

// names prints how many names users of each package meet, and how that has changed since base,
// which is by default the newest release. Generated packages, and those that are for generated
// code, do not count.
func (r *repository) names(ctx context.Context, base string, out io.Writer) error {
	if base == "" {
		var err error
		if base, err = r.newest(ctx); err != nil {
			return err
		}
	}
	packages, err := r.packages(ctx, []string{"GOWORK=off"})
	if err != nil {
		return err
	}
	now, before := r.countNames(packages), make(map[string]int)
	if base != "" {
		old, err := r.packagesAt(ctx, base)
		if err != nil {
			return err
		}
		before = r.countNames(old)
	}
	row := func(title string, now, before int) {
		change := ""
		if base != "" {
			change = fmt.Sprintf(" %+5d since %s", now-before, base)
		}
		fmt.Fprintf(out, "%-48s %5d%s\n", title, now, change)
	}
	sum := [2]int{}
	all := maps.Clone(before)
	maps.Copy(all, now)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		row(path, now[path], before[path])
		sum[0] += now[path]
		sum[1] += before[path]
	}
	row("all", sum[0], sum[1])
	return nil
}

// countNames counts the exported types, functions, constants, variables and methods by package.
func (r *repository) countNames(packages map[string]*types.Package) map[string]int {
	counts := make(map[string]int)
	for path, p := range packages {
		path = strings.TrimPrefix(path, r.path+"/")
		if path == "mcp" || strings.HasPrefix(path, "mcp/") || path == "codec/wire" || strings.HasPrefix(path, "codec/wire/") {
			continue
		}
		for _, name := range p.Scope().Names() {
			object := p.Scope().Lookup(name)
			if !object.Exported() {
				continue
			}
			counts[path]++
			named, ok := object.Type().(*types.Named)
			if _, isType := object.(*types.TypeName); !ok || !isType {
				continue
			}
			for m := range named.Methods() {
				if m.Exported() {
					counts[path]++
				}
			}
		}
	}
	return counts
}

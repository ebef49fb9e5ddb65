package client

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Roots is a set of places in the file system that servers may see; it can be that of several
// clients. Changes are announced to all of them. It may be used by many goroutines. What is in it is
// for the user to decide; a server sees those that [Options].CheckRoot admits (MCP roots).
type Roots struct {
	mu       sync.Mutex
	roots    []mcp.Root
	changes  uint64 // how often roots has changed
	sessions []*session.Session
}

// NewRoots returns a set of roots. It fails as [Roots.Set] does.
func NewRoots(roots ...mcp.Root) (*Roots, error) {
	r := new(Roots)
	return r, r.Set(context.Background(), roots...)
}

// List returns the roots.
func (r *Roots) List() []mcp.Root {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.roots)
}

// Set replaces all roots. It fails if a URI is none of a file, with an absolute path that does not
// climb: then nothing has changed. The servers are told; an error of that does not take the change
// back.
func (r *Roots) Set(ctx context.Context, roots ...mcp.Root) error {
	for _, root := range roots {
		if err := checkRoot(root.URI); err != nil {
			return err
		}
	}
	return r.change(ctx, func([]mcp.Root) []mcp.Root { return slices.Clone(roots) })
}

// Add adds a root, in the place of one with its URI. It fails as Set does.
func (r *Roots) Add(ctx context.Context, root mcp.Root) error {
	if err := checkRoot(root.URI); err != nil {
		return err
	}
	return r.change(ctx, func(roots []mcp.Root) []mcp.Root { return append(without(roots, root.URI), root) })
}

// Remove removes the root of a URI, if there is one.
func (r *Roots) Remove(ctx context.Context, uri string) error {
	return r.change(ctx, func(roots []mcp.Root) []mcp.Root { return without(roots, uri) })
}

func without(roots []mcp.Root, uri string) []mcp.Root {
	return slices.DeleteFunc(slices.Clone(roots), func(x mcp.Root) bool { return x.URI == uri })
}

// change changes the roots and tells the servers.
func (r *Roots) change(ctx context.Context, f func([]mcp.Root) []mcp.Root) error {
	r.mu.Lock()
	r.roots = f(r.roots)
	r.changes++
	r.sessions = slices.DeleteFunc(r.sessions, over)
	tell := slices.Clone(r.sessions)
	r.mu.Unlock()
	var failed error
	for _, s := range tell {
		err := s.Notify(ctx, mcp.MethodNotificationsRootsListChanged, nil)
		if err != nil && !errors.Is(err, session.ErrClosed) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// version returns how often the roots have changed.
func (r *Roots) version() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}

// join announces changes to a session until the session ends. Changes after version since are
// included, as the server may have requested the roots while the session was opened.
func (r *Roots) join(ctx context.Context, s *session.Session, since uint64) error {
	r.mu.Lock()
	r.sessions = append(slices.DeleteFunc(r.sessions, over), s)
	changed := r.changes != since
	r.mu.Unlock()
	if !changed {
		return nil
	}
	return s.Notify(ctx, mcp.MethodNotificationsRootsListChanged, nil)
}

func over(s *session.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// checkRoot tells why a URI cannot be a root.
func checkRoot(uri string) error {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return fmt.Errorf("client: root: %w", err)
	case u.Scheme != "file" || !strings.HasPrefix(u.Path, "/"):
		return fmt.Errorf("client: root %s: not the URI of a file, as in file:///home", uri)
	case slices.Contains(strings.FieldsFunc(u.Path, func(c rune) bool { return c == '/' || c == '\\' }), ".."):
		return fmt.Errorf("client: root %s: the path climbs", uri)
	}
	return nil
}

// Accessible returns nil if the file or folder of a root exists and can be opened. It also returns
// nil for a root on another host, which cannot be checked from here. It is the default of
// [Options].CheckRoot (MCP roots, "Security Considerations").
func Accessible(_ context.Context, root mcp.Root) error {
	u, err := url.Parse(root.URI)
	if err != nil {
		return fmt.Errorf("client: root: %w", err)
	}
	if u.Host != "" && u.Host != "localhost" {
		return nil
	}
	path := filepath.FromSlash(u.Path)
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, `\`) // the slash in /C:/folder
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() { // opening a pipe may block
		return fmt.Errorf("client: root %q: neither a folder nor a file", root.URI)
	}
	var f *os.File
	if err == nil {
		f, err = os.Open(path)
	}
	if err != nil {
		return fmt.Errorf("client: root %q: %w", root.URI, err)
	}
	return f.Close()
}

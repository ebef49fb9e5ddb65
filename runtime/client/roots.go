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

// Roots is a set of files and folders that servers may see (MCP roots). Several clients may share
// it, and each announces changes to its server. Let the user decide which roots it contains. A
// server sees the roots that [Input].CheckRoot admits. The zero value is an empty set. Roots is
// safe for concurrent use.
type Roots struct {
	mu       sync.Mutex
	roots    []mcp.Root // replaced, not changed
	changes  uint64     // number of changes of roots
	sessions []*session.Session
}

// Set replaces all roots and notifies the servers of a change, all at once. Each root must be a
// file URI with an absolute path without ".."; otherwise Set fails and changes nothing. If a server
// cannot be notified before ctx ends, Set returns the error, but the change remains.
func (r *Roots) Set(ctx context.Context, roots ...mcp.Root) error {
	for _, root := range roots {
		if err := checkRoot(root.URI); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.roots = slices.Clone(roots)
	r.changes++
	r.sessions = slices.DeleteFunc(r.sessions, ended)
	sessions := slices.Clone(r.sessions)
	r.mu.Unlock()
	failed := make([]error, len(sessions))
	var group sync.WaitGroup
	for i, s := range sessions { // at once: no server waits for one that does not respond
		group.Go(func() {
			if err := s.Notify(ctx, mcp.MethodNotificationsRootsListChanged, nil); !errors.Is(err, session.ErrClosed) {
				failed[i] = err
			}
		})
	}
	group.Wait()
	return errors.Join(failed...)
}

// list returns the roots.
func (r *Roots) list() []mcp.Root {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.roots
}

// version returns the number of changes so far.
func (r *Roots) version() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes
}

// announceTo announces changes to s until that session ends. It also announces changes made after
// version since, because the server may have listed the roots during the handshake.
func (r *Roots) announceTo(ctx context.Context, s *session.Session, since uint64) error {
	r.mu.Lock()
	r.sessions = append(slices.DeleteFunc(r.sessions, ended), s)
	changed := r.changes != since
	r.mu.Unlock()
	if !changed {
		return nil
	}
	return s.Notify(ctx, mcp.MethodNotificationsRootsListChanged, nil)
}

func ended(s *session.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// checkRoot returns an error if a URI cannot be a root.
func checkRoot(uri string) error {
	u, err := url.Parse(uri)
	switch {
	case err != nil:
		return fmt.Errorf("client: root: %w", err)
	case u.Scheme != "file" || !strings.HasPrefix(u.Path, "/"):
		return fmt.Errorf("client: root %q: want a file URI with an absolute path, such as file:///home", uri)
	case slices.Contains(strings.FieldsFunc(u.Path, func(c rune) bool { return c == '/' || c == '\\' }), ".."):
		return fmt.Errorf(`client: root %q: path contains ".."`, uri)
	}
	return nil
}

// accessible returns nil if the file or folder of a root exists and can be opened. It also returns
// nil for a root on another host, which cannot be checked from here. It is the default of
// [Input].CheckRoot (MCP roots, "Security Considerations").
func accessible(_ context.Context, root mcp.Root) error {
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

package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Roots requests the roots of the client: the folders and files that the server may use (MCP roots,
// "Listing Roots"). It fails with a [*session.CapabilityError] if the client has not declared
// roots, with [session.ErrTimeout] after [Limits.InputTimeout] and, in revisions without sessions,
// with an [*InputRequiredError] until there is a response. Roots may change, so call it for each
// use. If the client announces changes, the session caches the roots until the next
// notifications/roots/list_changed. The caller may modify the list.
func (c *Call) Roots(ctx context.Context) ([]mcp.Root, error) {
	client := c.ClientCapabilities()
	if client != nil && client.Roots == nil {
		return nil, &session.CapabilityError{Method: mcp.MethodRootsList, Capability: "roots", Revision: c.Revision()}
	}
	if c.replays() {
		answer, err := c.ask(ctx, mcp.MethodRootsList, nil, false, func() (mcp.InputRequest, error) {
			return &mcp.ListRootsRequest{Params: new(mcp.RequestParams)}, nil // the official Go SDK 1.8 fails without params
		})
		if err != nil {
			return nil, err
		}
		result := new(mcp.ListRootsResult)
		if err := codec.Unmarshal(answer, result, codec.AllowSize(answer)...); err != nil {
			return nil, err
		}
		return result.Roots, nil
	}
	if err := rerun.InStep(ctx, mcp.MethodRootsList); err != nil {
		return nil, err
	}
	if _, isTask := c.Task(); isTask || c.traits().InputInResults || client == nil || client.Roots.ListChanged == nil || !*client.Roots.ListChanged {
		return c.askRoots(ctx)
	}
	return c.p.roots.get(func() ([]mcp.Root, error) { return c.askRoots(ctx) })
}

func (c *Call) askRoots(ctx context.Context) ([]mcp.Root, error) {
	var result *mcp.ListRootsResult
	err := c.recording().Direct(ctx, mcp.MethodRootsList, func() (err error) {
		result, err = c.client().ListRoots(ctx, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return result.Roots, nil
}

// rootCache caches the roots of a client until the client announces a change.
type rootCache struct {
	mu      sync.Mutex
	changes uint64
	known   bool
	list    []mcp.Root
}

// get returns a copy of the cached roots. If there are none it calls ask, and caches the result
// unless the client has announced a change during the call.
func (r *rootCache) get(ask func() ([]mcp.Root, error)) ([]mcp.Root, error) {
	r.mu.Lock()
	known, list, changes := r.known, r.list, r.changes
	r.mu.Unlock()
	if known {
		return slices.Clone(list), nil
	}
	list, err := ask()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changes == changes {
		r.known, r.list = true, slices.Clone(list)
	}
	return list, nil
}

// changed drops the cached roots.
func (r *rootCache) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	r.known, r.list = false, nil
}

// ErrOutside reports that a path is outside of all roots.
var ErrOutside = errors.New("server: path is outside of all roots")

// Inside resolves the symbolic links of path and returns the result if it is inside of one of the
// roots. Otherwise it fails with an error that wraps [ErrOutside]. The path must exist. Another
// process may replace a file between the check and its use: where that matters, use [os.OpenRoot].
func Inside(roots []mcp.Root, path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	actual, err := filepath.EvalSymlinks(absolute)
	if err != nil {
		return "", err
	}
	for _, r := range roots {
		folder, err := rootFolder(r)
		if err != nil {
			continue // the root does not exist, or is not a folder of this machine
		}
		if rel, err := filepath.Rel(folder, actual); err == nil && filepath.IsLocal(rel) {
			return actual, nil
		}
	}
	return "", fmt.Errorf("%w: %q", ErrOutside, path)
}

// rootFolder returns the path of a root, with its symbolic links resolved.
func rootFolder(r mcp.Root) (string, error) {
	u, err := url.Parse(r.URI)
	if err != nil {
		return "", err
	}
	if u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Path == "" {
		return "", fmt.Errorf("server: root %q is not a folder of this machine", r.URI)
	}
	return filepath.EvalSymlinks(filepath.FromSlash(u.Path))
}

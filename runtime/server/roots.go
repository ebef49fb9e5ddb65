package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// Roots asks the client for the places in which the server may work (MCP roots, "Listing Roots"). It fails with a
// [*session.CapabilityError] if the client has none to offer. They may change: ask anew for each use, or when the
// client announces a change by notifications/roots/list_changed.
func (c *Call) Roots(ctx context.Context) ([]mcp.Root, error) {
	if client := c.capabilities(); client != nil && client.Roots == nil {
		return nil, &session.CapabilityError{Method: "roots/list", Capability: "roots", Revision: c.Session().Revision()}
	}
	result, err := c.client().ListRoots(ctx, nil)
	if err != nil {
		return nil, err
	}
	return result.Roots, nil
}

// ErrOutside says that a path leads out of all roots.
var ErrOutside = errors.New("server: the path is outside of all roots")

// Inside returns a path with its symbolic links followed, if it is inside of one of the roots, and fails with
// [ErrOutside] otherwise. The path must exist. Files may be moved behind the back of a server: where that matters, use
// [os.OpenRoot].
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
			continue // one that has vanished, or is no folder of this machine
		}
		if rel, err := filepath.Rel(folder, actual); err == nil && filepath.IsLocal(rel) {
			return actual, nil
		}
	}
	return "", fmt.Errorf("%w: %s", ErrOutside, path)
}

// rootFolder returns the folder that a root stands for.
func rootFolder(r mcp.Root) (string, error) {
	u, err := url.Parse(r.URI)
	if err != nil {
		return "", err
	}
	if u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.Path == "" {
		return "", fmt.Errorf("server: the root %q is no folder of this machine", r.URI)
	}
	return filepath.EvalSymlinks(filepath.FromSlash(u.Path))
}

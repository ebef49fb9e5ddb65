package session

import (
	"context"
	"slices"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/ability"
)

// owner implements [ability.Owner] for a session.
type owner struct{ s *Session }

var _ ability.Owner = owner{}

func (o owner) Speaks(revision mcp.Revision) bool {
	return slices.Contains(o.s.cfg.Revisions, revision) && !revision.Traits().Sessionless
}

func (o owner) Shutdown(ctx context.Context) error { return o.s.Shutdown(ctx) }

func (o owner) AwaitsPeer() bool { return o.s.inbound.AwaitsPeer() && !o.s.notices.Running() }

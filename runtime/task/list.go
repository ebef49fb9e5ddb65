package task

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/mcpwire/mcpwire/mcp"
)

// List returns a page of the tasks of a principal, the oldest first, and the cursor of the next
// page, or "" if this is the last page (MCP tasks, "Task Listing"). The empty cursor stands for the
// first page. Tasks that exist during the whole listing are listed exactly once. A cursor never
// expires and survives a restart, but is valid only for its principal. All other cursors fail with
// errCursor.
func (m *Manager) List(ctx context.Context, principal, cursor string) (tasks []mcp.Task, next string, err error) {
	tasks, next, err = m.list(ctx, principal, cursor)
	if err != nil {
		m.audit.refused(principal, "", mcp.MethodTasksList, err)
		return nil, "", err
	}
	m.audit.listed(principal)
	return tasks, next, nil
}

func (m *Manager) list(ctx context.Context, principal, cursor string) (tasks []mcp.Task, next string, err error) {
	if err := m.admit(ctx, principal); err != nil {
		return nil, "", err
	}
	after, err := parseCursor(principal, cursor)
	if err != nil {
		return nil, "", err
	}
	// One record more than fits on the page shows whether there is a next page.
	records, err := m.store.list(ctx, principal, after, m.cfg.Limits.PageSize+1)
	if err != nil {
		return nil, "", m.logFault("list tasks", err)
	}
	if len(records) > m.cfg.Limits.PageSize {
		records = records[:m.cfg.Limits.PageSize]
		next = formatCursor(principal, records[len(records)-1].Seq)
	}
	now := m.earlier()
	tasks = make([]mcp.Task, 0, len(records))
	for i := range records {
		if !records[i].expired(now) {
			records[i].show()
			m.explain(&records[i])
			tasks = append(tasks, records[i].Task())
		}
	}
	return tasks, next, nil
}

// formatCursor returns the cursor of the page after the task with the given Seq. A cursor holds
// that Seq, and a checksum over it and the principal. The checksum detects cursors that are
// malformed or belong to another principal. It need not be secret, because a cursor gives access
// only to the principal's own tasks.
func formatCursor(principal string, seq uint64) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 16+len(principal)), seq)
	sum := sha256.Sum256(append(b, principal...))
	return base64.RawURLEncoding.EncodeToString(append(b, sum[:8]...))
}

// parseCursor returns the Seq in a cursor, or 0 for the empty cursor.
func parseCursor(principal, cursor string) (after uint64, err error) {
	if cursor == "" {
		return 0, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) != 16 {
		return 0, errCursor
	}
	after = binary.BigEndian.Uint64(b)
	if formatCursor(principal, after) != cursor {
		return 0, errCursor
	}
	return after, nil
}

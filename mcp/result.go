package mcp

// Failed reports whether the tool failed, which Content then describes. It returns false if r is
// nil.
func (r *CallToolResult) Failed() bool { return r != nil && isTrue(r.IsError) }

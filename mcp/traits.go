package mcp

// Traits are the differences between revisions that a program acts on and that neither
// [Revision.Has] nor [Revision.Defines] tells. A program that asks for one of them, instead of
// comparing revisions, needs no change for the next revision. The zero value has the traits of all
// revisions until 2025-11-25, and of an unknown one.
type Traits struct {
	// Sessionless is true if there is no initialize: each request states its revision and the
	// capabilities of its client in its _meta, and the server remembers nothing of them (MCP basic,
	// "_meta").
	Sessionless bool
	// InputInResults is true if the server sends no requests. What it needs from the user or the model
	// is in the result of a request, which the client sends again with the responses (MCP multi
	// round-trip requests).
	InputInResults bool
	// Listens is true if one request of the client, subscriptions/listen, covers all notifications
	// that belong to no other request (MCP subscriptions).
	Listens bool
	// TasksByServer is true if the server decides which calls become tasks, those of the Tasks
	// extension. Otherwise the requestor asks for a task.
	TasksByServer bool
	// ResultTypes is true if each result names its type (MCP basic, "ResultType").
	ResultTypes bool
	// CacheHints is true if lists and contents say how long they may be cached (MCP caching).
	CacheHints bool
	// LogInRequests is true if each request states the least severe log messages that the client wants
	// while it is served. Otherwise logging/setLevel does, for the session.
	LogInRequests bool
	// ParamHeaders is true if the header of an HTTP request repeats arguments of tools (MCP Streamable
	// HTTP, "Custom Headers from Tool Parameters").
	ParamHeaders bool
	// AnyOutput is true if the structured output of a tool is any JSON value. Otherwise it is an
	// object.
	AnyOutput bool
	// OwnErrors is true if the revision reserves error codes from -32000 to -32099 for itself, and
	// defines some, such as that of a missing capability (MCP basic, "Error Codes").
	OwnErrors bool
}

// Traits returns the traits of the revision.
func (rev Revision) Traits() Traits {
	switch rev {
	case Revision20260728:
		return Traits{
			Sessionless: true, InputInResults: true, Listens: true, TasksByServer: true, ResultTypes: true,
			CacheHints: true, LogInRequests: true, ParamHeaders: true, AnyOutput: true, OwnErrors: true,
		}
	}
	return Traits{}
}

package main

import "github.com/mcpwire/mcpwire/tools/compare/probe"

// Peer is one library.
type Peer struct {
	Name    string
	Module  string // its module path
	How     string // which of its types and functions are used, and how; Markdown
	Attempt func(in Input) probe.Trial
	// Else says how the attempt would go with the library's other way to decode, if it has one that a caller
	// does not get to use. Nil if it has none.
	Else func(in Input) probe.Trial
}

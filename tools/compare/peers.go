package main

import "github.com/mcpwire/mcpwire/tools/compare/probe"

// Peer is one library.
type Peer struct {
	Name    string
	Module  string // its module path
	How     string // the types and functions that the comparison uses; Markdown
	Attempt func(in Input) probe.Trial
	// Else makes the attempt with the library's internal way to decode. It is nil if the library
	// has only one way.
	Else func(in Input) probe.Trial
}

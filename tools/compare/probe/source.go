package probe

import _ "embed" // for Source

// Source is the source of this package, for a module that is written at run time.
//
//go:embed probe.go
var Source string

package probe

import _ "embed" // for Source

// Source is the text of the file that holds [Run], for a module that is written at run time.
//
//go:embed probe.go
var Source string

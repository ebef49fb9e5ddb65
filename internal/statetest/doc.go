// Package statetest tests that programs built with different versions of Go read each other's
// state: stores, sealed texts, cursors and recordings. encoding/json has another implementation
// from Go 1.27 on, and user code whose JSON differs reaches recorded results and digests.
//
// The folder testdata has a folder of fixtures for each version of Go, which the test reads with
// the version that runs it. The fixtures also show that later versions of this module read the
// formats of earlier ones, so they are written again only for a new version of Go, or when the test
// covers more:
//
//	GOTOOLCHAIN=go1.26.8 go test ./internal/statetest -update
//
// Other packages read some of the fixtures, too.
package statetest

//go:build race

package roundtrip

const slower = 5 // the race detector is about that much slower

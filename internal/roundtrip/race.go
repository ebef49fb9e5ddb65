//go:build race

package roundtrip

const slower = 5 // the slowdown by the race detector

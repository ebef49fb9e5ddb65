//go:build !race

package roundtrip

const slower = 1

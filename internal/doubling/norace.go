//go:build !race

package doubling

const race = false // the race detector is off

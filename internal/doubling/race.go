//go:build race

package doubling

const race = true

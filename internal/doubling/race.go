//go:build race

package doubling

// Race reports whether the race detector is on. With it, Go allocates temporary slices that it
// otherwise avoids.
const Race = true

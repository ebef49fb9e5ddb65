//go:build race

package durabletest

const raceDetector = true

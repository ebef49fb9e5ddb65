// Package stat summarizes repeated measurements.
package stat

import "slices"

// Median returns the median of a list, which is the mean of two values if their number is even, or 0
// if the list is empty.
func Median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	if n == 0 {
		return 0
	}
	return (list[(n-1)/2] + list[n/2]) / 2
}

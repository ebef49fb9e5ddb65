package codec

// Nullable is a value that may also be null. An optional member that may be null is a pointer to a
// Nullable; the pointer is nil if the member is absent.
type Nullable[T any] struct {
	Value T    // the zero value if Null is set
	Null  bool // the value is null
}

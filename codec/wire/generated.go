package wire

// GeneratedVersion3 is referenced by generated code that needs this version of the packages codec
// and wire. A later, incompatible version has another name, so that a mismatch is a compile error.
const GeneratedVersion3 = true

// Nullable is a value that may also be null. An optional member that may be null is a pointer to a
// Nullable; the pointer is nil if the member is absent.
type Nullable[T any] struct {
	Value T    // the zero value if Null is set
	Null  bool // the value is null
}

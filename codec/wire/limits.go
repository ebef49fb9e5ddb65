package wire

// Limits bound the texts that a [Reader] accepts. A field that is zero or negative stands for its
// default.
type Limits struct {
	Depth  int  // arrays and objects inside each other; 512 by default
	Size   int  // bytes of the text; 64 MiB by default
	String int  // bytes between the quotes of a string or a member name; Size by default
	NoCopy bool // raw values are parts of the text, which then must never change
}

// A decoded value may take memoryPerByte for each byte of its text, in addition to freeMemory. An
// object of two bytes may take as much as its type has fields, so that a message of a few megabytes
// could otherwise fill the memory. Useful objects have members, and take a few bytes for each byte
// of their text.
const (
	memoryPerByte = 20
	freeMemory    = 256 << 10
)

// The default limits.
const (
	DefaultDepth = 512
	DefaultSize  = 64 << 20
)

func (l Limits) orDefault() Limits {
	if l.Depth <= 0 {
		l.Depth = DefaultDepth
	}
	if l.Size <= 0 {
		l.Size = DefaultSize
	}
	if l.String <= 0 {
		l.String = l.Size
	}
	return l
}

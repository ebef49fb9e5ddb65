package codec

import (
	"encoding/json"
	"iter"

	"github.com/mcpwire/mcpwire/codec/wire"
)

// Extra holds the parts of an object that have no place in the fields of its Go type: unknown
// members, known members whose value the type cannot hold, the set of missing required members, and
// the text of numbers that do not fit their field. It is one pointer; the zero value is empty.
//
// An Extra may be moved to a value of another type. Encoding that value omits each member of the
// Extra that has the name of a field already written.
//
// Copies of a struct may share an Extra: a method that changes it copies the contents first, in
// time proportional to [Extra.Len]. The raw values it returns must not be changed.
//
// Code that reads and writes an object converts its address to a [*wire.Extra].
type Extra wire.Extra

// Len returns how many members x holds.
func (x Extra) Len() int { return wire.Extra(x).Len() }

// Get returns the value of the member name.
func (x Extra) Get(name string) (value json.RawMessage, ok bool) { return wire.Extra(x).Get(name) }

// Has reports whether x holds the member name.
func (x Extra) Has(name string) bool { return wire.Extra(x).Has(name) }

// Set adds the member name, or replaces its value in place. The value is not copied, and is checked
// when it is written; it must not be changed afterwards.
func (x *Extra) Set(name string, value json.RawMessage) { (*wire.Extra)(x).Set(name, value) }

// Delete removes the member name, if there is one.
func (x *Extra) Delete(name string) { (*wire.Extra)(x).Delete(name) }

// All iterates over the members in the order in which they were read or set.
func (x Extra) All() iter.Seq2[string, json.RawMessage] { return wire.Extra(x).All() }

// Equal reports whether x and y have the same contents. It ignores the order of members and the
// white space in raw values.
func (x Extra) Equal(y Extra) bool { return wire.Extra(x).Equal(wire.Extra(y)) }

// IsZero reports whether x holds nothing.
func (x Extra) IsZero() bool { return wire.Extra(x).IsZero() }

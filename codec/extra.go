package codec

import "github.com/mcpwire/mcpwire/codec/wire"

// Extra holds the parts of an object that have no place in the fields of its Go type, such as
// members that the type does not know. See [wire.Extra].
type Extra = wire.Extra

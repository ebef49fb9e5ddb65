package gosdk

import "encoding/json"

var (
	ToMessage   = toMessage
	FromMessage = fromMessage
	Encode      = encode
)

func Decode[T any](raw json.RawMessage) (*T, error) { return decode[T](raw) }

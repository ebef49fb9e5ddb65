package mcpgo

import "encoding/json"

var Encode = encode

func Decode[T any](raw json.RawMessage) (*T, error) { return decode[T](raw) }

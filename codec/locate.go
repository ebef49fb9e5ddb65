package codec

import "github.com/mcpwire/mcpwire/codec/internal/scan"

// Position returns the line and the column of the byte at an offset, counted as [Error] does. An
// offset beyond the end counts as the end.
func Position(data []byte, offset int) (line, col int) { return scan.Position(data, offset) }

// Locate returns the offset of the value that a JSON pointer (RFC 6901) leads to; ok is false if
// there is none. The text should be well formed; if a name appears twice, the first counts.
func Locate(data []byte, pointer string) (offset int, ok bool) { return scan.Locate(data, pointer) }

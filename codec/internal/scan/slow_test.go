package scan

import (
	"github.com/mcpwire/mcpwire/codec/internal/slow"
	"github.com/mcpwire/mcpwire/internal/hostile"
)

// slowString is slow.String with the errors of this package.
func slowString(text string) (end int, err error) {
	end, rule := slow.String(text)
	return end, map[hostile.Rule]error{
		hostile.ControlChar: ErrControlChar, hostile.UTF8: ErrUTF8, hostile.Escape: ErrEscape, hostile.EOF: ErrEOF, hostile.Surrogate: ErrSurrogate,
	}[rule]
}

package scan

import (
	"github.com/mcpwire/mcpwire/codec/internal/slow"
	"github.com/mcpwire/mcpwire/internal/hostile"
	"github.com/mcpwire/mcpwire/internal/jsonfault"
)

// slowString is slow.String with the errors of this package.
func slowString(text string) (end int, err error) {
	end, rule := slow.String(text)
	return end, map[hostile.Rule]error{
		hostile.ControlChar: jsonfault.ControlChar, hostile.UTF8: jsonfault.UTF8, hostile.Escape: jsonfault.Escape, hostile.EOF: jsonfault.EOF, hostile.Surrogate: jsonfault.Surrogate,
	}[rule]
}

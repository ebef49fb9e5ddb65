package rerun

import (
	"time"

	"github.com/mcpwire/mcpwire/codec"
)

// For tests in replay_test.
var (
	DecodeState = decodeState
	AddGroups   = addGroups
)

func (s *State) Append(dst []byte) []byte { return s.append(dst) }

func (c *Context) Digest() []byte { return c.digest() }

// StrictJSON reports whether the codec accepts a text.
func StrictJSON(text string) bool { return codec.Valid([]byte(text)) == nil }

// Canonical returns the canonical form of JSON.
func Canonical(text string) string {
	c := canonicals.Get().(*canonical)
	defer canonicals.Put(c)
	return string(c.append(nil, []byte(text)))
}

// Pause returns the pause after the n-th attempt.
func (r Retry) Pause(n int) time.Duration { return r.pause(n) }

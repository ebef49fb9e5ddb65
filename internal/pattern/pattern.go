// Package pattern compiles regular expressions that a peer has chosen. It limits the work of
// compilation, and measures that of a match.
package pattern

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// maxBytes limits the lengths of all patterns of a set together, and maxInstructions the
	// instructions that they compile to.
	maxBytes        = 64 << 10
	maxInstructions = 100_000
	// instructionsPerStep is the number of instructions of a pattern, each for one byte of a text,
	// that take one step.
	instructionsPerStep = 16
)

// Pattern is a compiled regular expression. It is safe for concurrent use.
type Pattern struct {
	*regexp.Regexp
	size int // instructions
}

// Steps returns the maximum number of steps of a match with a text of the given length in bytes. A
// step takes about 100 nanoseconds.
func (p *Pattern) Steps(length int) int { return 1 + p.size*length/instructionsPerStep }

// Set compiles the patterns of one schema. The zero value is ready to use.
type Set struct {
	compiled map[string]*Pattern
	bytes    int
	size     int // instructions
	limit    error
}

// Compile compiles a pattern. It fails if the pattern is invalid, or if the patterns of the set are
// too large together.
func (s *Set) Compile(text string) (*Pattern, error) {
	if known := s.compiled[text]; known != nil {
		return known, nil
	}
	if s.bytes += len(text); s.bytes > maxBytes {
		s.limit = fmt.Errorf("the patterns have more than %d bytes", maxBytes)
		return nil, s.limit
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := instructions(parsed)
	if s.size += size; s.size > maxInstructions {
		s.limit = fmt.Errorf("the patterns compile to more than %d instructions", maxInstructions)
		return nil, s.limit
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	if s.compiled == nil {
		s.compiled = map[string]*Pattern{}
	}
	s.compiled[text] = &Pattern{re, size}
	return s.compiled[text], nil
}

// Compiled returns the compiled pattern with the given text, or nil.
func (s *Set) Compiled(text string) *Pattern { return s.compiled[text] }

// Size returns the number of instructions of all patterns.
func (s *Set) Size() int { return s.size }

// Limit returns an error if a pattern was refused because the patterns are too large together.
func (s *Set) Limit() error { return s.limit }

// instructions returns about the number of instructions that an expression compiles to.
func instructions(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 64 // to search
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

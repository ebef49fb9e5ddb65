package schemadiff

import (
	"strconv"

	"github.com/mcpwire/mcpwire/internal/gen/load"
	"github.com/mcpwire/mcpwire/internal/gen/merge"
)

// bounds compares the bounds and formats of two shapes of the same type.
func (c *comparer) bounds(p place, a, b merge.Node) {
	sa, sb := a.At(), b.At()
	for _, k := range []struct {
		keyword string
		of      func(*load.Schema) *float64
		upper   bool // the bound is an upper one, so a smaller one is tighter
	}{
		{"minimum", func(s *load.Schema) *float64 { return s.Minimum }, false},
		{"maximum", func(s *load.Schema) *float64 { return s.Maximum }, true},
		{"exclusiveMinimum", func(s *load.Schema) *float64 { return s.ExclusiveMinimum }, false},
		{"exclusiveMaximum", func(s *load.Schema) *float64 { return s.ExclusiveMaximum }, true},
		{"minLength", func(s *load.Schema) *float64 { return float(s.MinLength) }, false},
		{"maxLength", func(s *load.Schema) *float64 { return float(s.MaxLength) }, true},
		{"minItems", func(s *load.Schema) *float64 { return float(s.MinItems) }, false},
		{"maxItems", func(s *load.Schema) *float64 { return float(s.MaxItems) }, true},
	} {
		old, now := k.of(sa), k.of(sb)
		if old == now || old != nil && now != nil && *old == *now {
			continue
		}
		looser := now == nil || old != nil && (*now > *old) == k.upper
		if looser {
			c.add(Bound, p, Widened, "", "%s: %s → %s", k.keyword, number(old), number(now))
		} else {
			c.add(Bound, p, None, "", "%s: %s → %s", k.keyword, number(old), number(now))
		}
	}
	if sa.Format != sb.Format {
		c.add(Bound, p, None, "", "format: %s → %s", orNone(sa.Format), orNone(sb.Format))
	}
}

func float(n *int) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

func number(f *float64) string {
	if f == nil {
		return "none"
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

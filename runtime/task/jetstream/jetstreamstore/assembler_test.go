package jetstreamstore

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// A write whose answer was lost is repeated, and a process may die between the parts of an event.
func TestAssembler(t *testing.T) {
	whole := func(n uint64, text string) part {
		return part{Event: streamable.Event{Number: n, Text: []byte(text)}}
	}
	first := func(n uint64, text string) part {
		p := whole(n, text)
		p.more = true
		return p
	}
	following := func(n uint64, index uint32, text string, more bool) part {
		p := whole(n, text)
		p.index, p.more = index, more
		return p
	}
	last := part{Event: streamable.Event{Number: 9, Last: true}}
	for _, test := range []struct {
		name  string
		parts []part
		want  string
	}{
		{"whole events", []part{whole(1, "a"), whole(2, "b"), last}, "1a 2b 9-last"},
		{"parts", []part{first(1, "a"), following(1, 1, "b", true), following(1, 2, "c", false), whole(2, "d")}, "1abc 2d"},
		{"repeated event", []part{whole(1, "a"), whole(1, "a"), whole(2, "b"), whole(1, "c")}, "1a 2b"},
		{"repeated part", []part{first(1, "a"), following(1, 1, "b", true), following(1, 1, "b", true), following(1, 2, "c", false)}, "1abc"},
		{"repeated first part", []part{first(1, "a"), first(1, "a"), following(1, 1, "b", false)}, "1ab"},
		{"missing rest, replaced", []part{first(1, "a"), following(1, 1, "b", true), whole(1, "lost"), whole(2, "c")}, "1lost 2c"},
		{"missing rest, written again", []part{first(1, "a"), first(1, "x"), following(1, 1, "y", false)}, "1xy"},
		{"missing rest, next event", []part{first(1, "a"), following(2, 1, "b", false), whole(2, "c")}, "2c"},
		{"missing first part", []part{following(1, 1, "b", false), whole(2, "c")}, "2c"},
		{"end without a text", []part{last}, "9-last"},
	} {
		var a assembler
		var got []string
		for _, p := range test.parts {
			e, complete := a.add(p.encode())
			if !complete {
				continue
			}
			text := string(rune('0'+e.Number)) + string(e.Text)
			if e.Text == nil {
				text += "-"
			}
			if e.Last {
				text += "last"
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	var a assembler
	if _, complete := a.add([]byte("short")); complete {
		t.Error("a message without a header is an event")
	}
}

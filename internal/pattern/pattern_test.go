package pattern

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"
)

// The estimate of instructions is at least that of the compiler, and not much more.
func TestInstructions(t *testing.T) {
	for _, text := range []string{"a", "^[a-z]+$", "(a|b*)?c", "x{1000}", "(xy{2,}){0,500}", `^\d{4}-\d\d-\d\d$`, `\pL+`, "(?i)straße", "((ab){30}c){30}", "(a|bc|[0-9]{3,9})*"} {
		re, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		estimate := instructions(re)
		prog, err := syntax.Compile(re.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(prog.Inst); estimate < n/2-2 || estimate > 10*n {
			t.Errorf("%s: %d, want about %d", text, estimate, n)
		}
	}
}

func TestSetLimitsPatternsTogether(t *testing.T) {
	var bytes, size Set
	for i := range 700 {
		if _, err := bytes.Compile(fmt.Sprintf("%d%s", i, strings.Repeat("a|b*", 25))); err != nil {
			break
		}
	}
	if err := bytes.Limit(); err == nil || err.Error() != "the patterns have more than 65536 bytes" {
		t.Errorf("got %v", err)
	}
	for i := range 120 {
		if _, err := size.Compile(fmt.Sprintf("%dx{1000}", i)); err != nil {
			break
		}
	}
	if err := size.Limit(); err == nil || err.Error() != "the patterns compile to more than 100000 instructions" {
		t.Errorf("got %v", err)
	}
	if _, err := size.Compile("7x{1000}"); err != nil {
		t.Errorf("a known pattern: %v", err)
	}
}

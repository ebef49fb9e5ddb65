package gen_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mcpwire/mcpwire/internal/gen/load"
)

// The table of docs/reference/generator.md is that of the loader. The flag -update writes it.
func TestKeywordTableIsDocumented(t *testing.T) {
	const file, begin, end = "../docs/reference/generator.md", "| keyword | effect | |\n| --- | --- | --- |\n", "\n\n"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no table of keywords", file)
	}
	var rows []string
	for _, k := range load.Keywords {
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |", k.Name, k.Effect, k.Note))
	}
	want := strings.Join(rows, "\n")
	if table == want {
		return
	}
	if !*update {
		t.Errorf("the table is not that of the loader; write it with -update")
		return
	}
	if err := os.WriteFile(file, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serveFlag {
		if err := serve(context.Background(), os.Args[2]); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestEveryContestantIsMeasured(t *testing.T) {
	for _, group := range []struct {
		args []string
		list []contestant
	}{{nil, texts()}, {[]string{"-structs"}, structs()}, {[]string{"-proxy"}, proxies()}, {[]string{"-embedded", "-argument", "100"}, slices.Concat(embeddings(0)...)}} {
		var out strings.Builder
		if err := run(t.Context(), append(group.args, "-rounds", "1", "-time", time.Millisecond.String()), &out); err != nil {
			t.Fatal(err)
		}
		for _, c := range group.list {
			if got := strings.Count(out.String(), "  "+c.name+" "); got != 2*len(c.ways) {
				t.Errorf("%s appears %d times:\n%s", c.name, got, &out)
			}
		}
	}
}

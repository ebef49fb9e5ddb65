package main

import (
	"context"
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if args := os.Args[1:]; child(args) {
		if err := runChild(context.Background(), args, os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestEveryContestantHoldsSessions(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-sessions", "3"}, &out); err != nil {
		t.Fatal(err)
	}
	for _, c := range contestants() {
		if got := strings.Count("\n"+out.String(), "\n"+c.name+" "); got != 1 {
			t.Errorf("%s appears %d times:\n%s", c.name, got, &out)
		}
	}
}

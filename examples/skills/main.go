// Command skills serves the skills of a folder on standard input and output. By default, it serves
// those beside this file:
//
//	go run ./tools/mcpwire skills list 'go run ./examples/skills'
//	go run ./tools/mcpwire skills get 'go run ./examples/skills' skill://release-notes/SKILL.md
package main

import (
	"context"
	"log"
	"os"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/server/skills"
)

func main() {
	dir := "examples/skills/skills"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := serve(context.Background(), dir); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, dir string) error {
	catalog, err := skills.Load(os.DirFS(dir), nil)
	if err != nil {
		return err
	}
	s := server.New("skills", "1.0.0", nil)
	skills.Add(s, catalog.Source()) // ServeStdio returns its error
	return s.ServeStdio(ctx)
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	wire "github.com/mcpwire/mcpwire/mcp/ext/skills"
	hosted "github.com/mcpwire/mcpwire/runtime/client/skills"
	"github.com/mcpwire/mcpwire/runtime/server/skills"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

// skillCommands returns the commands about skills.
func skillCommands() []command {
	return []command{
		skillCommand("list", "list the skills of a server", "", " SERVER", " https://example.com/mcp", 1, 1, (*remote).listSkills),
		skillCommand("get", "write a verified file of a skill", `
URI is the URI of the SKILL.md, as in the list. FILE is the path of another file of the skill. Writes
the file to standard output without changes.
`, " SERVER URI [FILE]", " https://example.com/mcp skill://greeting/SKILL.md references/GREETINGS.md", 2, 3, (*remote).getSkill),
		skillCommand("verify", "verify all files of the skills of a server", `
Reads every file of every skill that the server lists, and compares it with its size and digest. Prints
a line for each valid skill, and an error for each invalid one. With -dir, checks the skills in a folder
instead, as a server does before it serves them.
`, " SERVER", " https://example.com/mcp\n  mcpwire skills verify -dir skills", 1, 1, (*remote).verifySkills),
	}
}

func skillCommand(verb, short, more, want, example string, least, most int, run func(r *remote, ctx context.Context, args []string) error) command {
	dirArg := ""
	if verb == "verify" {
		dirArg = "[-dir DIR] "
	}
	return command{
		name:  "skills " + verb,
		args:  dirArg + "[-json] [-era ERA] [-env NAME] [-header H] [-root DIR] " + authArgs + want,
		short: short,
		help: `
Connects to a server to ` + short + `. Executes nothing that a skill contains.
` + more + serverHelp + `
Example:

  mcpwire skills ` + verb + example + `
`,
		setup: func(flags *flag.FlagSet) func(context.Context, streams, []string) error {
			r := new(remote)
			r.declare(flags)
			var dir text
			if verb == "verify" {
				flags.Var(&dir, "dir", "check the skills in the folder `DIR` instead of those of a server")
			}
			return func(ctx context.Context, s streams, args []string) error {
				switch {
				case dir != "" && len(args) > 0:
					return usagef("want -dir or SERVER, not both")
				case dir != "":
					return verifyFolder(s, string(dir))
				case len(args) < least:
					return usagef("missing argument; want%s", want)
				case len(args) > most:
					return usagef("unexpected argument %q", args[most])
				}
				return r.withServer(ctx, s, args[0], func() error { return run(r, ctx, args[1:]) })
			}
		},
	}
}

// skills returns a client for the skills of the server. It approves every skill, because the
// commands pass no skill to a model.
func (r *remote) skills() (*hosted.Client, error) {
	s, err := hosted.New(r.Client, hosted.Options{
		Label: "server", Dynamic: true,
		Approve: func(context.Context, *hosted.Entry) (bool, error) { return true, nil },
	})
	if err == nil && !s.Supported() {
		err = errors.New("the server has no skills")
	}
	return s, err
}

// eachSkill calls f with each skill that the server lists. Invalid entries are reported, and
// counted.
func (r *remote) eachSkill(ctx context.Context, f func(*hosted.Client, *hosted.Entry) error) (invalid int, err error) {
	s, err := r.skills()
	if err != nil {
		return 0, err
	}
	for e, err := range s.List(ctx) {
		if _, ok := errors.AsType[*hosted.VerificationError](err); ok {
			invalid++
			r.report(err)
			continue
		}
		if err == nil {
			err = f(s, e)
		}
		if err != nil {
			return invalid, err
		}
	}
	return invalid, nil
}

// report writes the fault of a skill to standard error.
func (r *remote) report(err error) { fmt.Fprintf(r.err, "%s\n", printable.Error(err)) }

func (r *remote) listSkills(ctx context.Context, _ []string) error {
	invalid, err := r.eachSkill(ctx, func(_ *hosted.Client, e *hosted.Entry) error {
		if r.json {
			return r.writeJSON(&e.Skill)
		}
		return r.writeEntry(e.URI, e.Name, &e.Description)
	})
	return faultsIf(invalid, err)
}

func faultsIf(n int, err error) error {
	if err == nil && n > 0 {
		return errFaults
	}
	return err
}

func (r *remote) getSkill(ctx context.Context, args []string) error {
	s, err := r.skills()
	if err != nil {
		return err
	}
	e, err := s.Get(ctx, args[0])
	if err != nil {
		return err
	}
	if r.json && len(args) == 1 {
		return r.writeJSON(&e.Skill)
	}
	skill, err := s.Load(ctx, e)
	if err != nil {
		return err
	}
	file := "SKILL.md"
	if len(args) > 1 {
		file = args[1]
	}
	data, err := skill.Read(ctx, file)
	if err == nil {
		_, err = r.out.Write(data)
	}
	return err
}

func (r *remote) verifySkills(ctx context.Context, _ []string) error {
	faults := 0
	invalid, err := r.eachSkill(ctx, func(s *hosted.Client, e *hosted.Entry) error {
		files, size, err := verifySkill(ctx, s, e)
		if err != nil {
			faults++
			r.report(err)
			return ctx.Err()
		}
		_, err = fmt.Fprintf(r.out, "%s  %d files, %d bytes\n", printable.Line(e.URI), files, size)
		return err
	})
	return faultsIf(faults+invalid, err)
}

// verifySkill reads all files of a skill.
func verifySkill(ctx context.Context, s *hosted.Client, e *hosted.Entry) (files, size int, err error) {
	skill, err := s.Load(ctx, e)
	if err != nil {
		return 0, 0, err
	}
	list, ok := e.Resources.(*wire.SkillResourcesList)
	if !ok {
		return 0, 0, fmt.Errorf("%s: the skill is dynamic, so that its files cannot be verified", e.URI)
	}
	for _, f := range list.Value {
		data, err := skill.Read(ctx, f.URI)
		if err != nil {
			return 0, 0, err
		}
		files, size = files+1, size+len(data)
	}
	return files, size, nil
}

// verifyFolder checks the skills in a folder.
func verifyFolder(s streams, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	faults := map[string]error{}
	catalog, err := skills.Load(root.FS(), &skills.Options{Skip: func(dir string, err error) { faults[dir] = err }})
	if err != nil {
		return err
	}
	for _, dir := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(s.err, "%s\n", printable.Error(faults[dir]))
	}
	source := catalog.Source()
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := source.List(context.Background(), nil, cursor)
		if err != nil {
			return err
		}
		for _, e := range page {
			if _, err := io.WriteString(s.out, printable.Line(e.URI)+"\n"); err != nil {
				return err
			}
		}
		cursor = next
	}
	return faultsIf(len(faults), nil)
}

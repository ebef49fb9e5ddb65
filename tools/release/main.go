// Command release makes releases of the modules of this repository, which all have the same version.
//
//	release check [-base TAG] [VERSION]
//	release prepare VERSION
//	release proxy DIR VERSION
//	release artifacts DIR VERSION
//	release names [TAG]
//
// Check lists what stands in the way of a release: changes that are not committed, an empty section
// "Unreleased" of CHANGELOG.md, and a VERSION that semantic versioning does not allow for the changes
// of the API since TAG, which is by default the newest release. Without VERSION, it prints the lowest
// allowed one.
//
// Prepare makes two commits on the current branch. The first one is the release: CHANGELOG.md has a
// section for it, and the published modules require each other in this version, without replace
// directives. Each published module has a tag on it. The second commit is where development goes on:
// the replace directives are back. Prepare pushes nothing. If it fails, the repository stays as it was.
//
// Proxy writes the modules into DIR as the public module proxy would serve them after that release,
// so that GOPROXY=file://DIR tries it before anything is published. The work tree counts as
// committed. DIR may have other versions.
//
// Artifacts writes what a release has besides its modules into DIR, for a version that is tagged: the
// command line for all platforms, a container image of it, lists of dependencies (CycloneDX), and
// checksums. They are the same bytes wherever they are made with the same version of Go.
//
// Names counts the exported names of each package, and the change since TAG.
//
// All modules are published but those below tools and examples, which nobody imports.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, ".", os.Args[1:], os.Stdout); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("want check [-base TAG] [VERSION], prepare VERSION, proxy DIR VERSION, artifacts DIR VERSION, or names [TAG]")

// run executes a command in the repository that has the folder dir.
func run(ctx context.Context, dir string, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	r, err := open(ctx, dir)
	if err != nil {
		return err
	}
	switch name, args := args[0], args[1:]; {
	case name == "check":
		flags := flag.NewFlagSet("check", flag.ContinueOnError)
		base := flags.String("base", "", "compare with this `TAG`")
		if err := flags.Parse(args); err != nil {
			return err
		}
		if flags.NArg() > 1 {
			return errUsage
		}
		return r.check(ctx, *base, flags.Arg(0), out)
	case name == "prepare" && len(args) == 1:
		return r.prepare(ctx, args[0], time.Now(), out)
	case name == "proxy" && len(args) == 2:
		return r.proxy(ctx, args[0], args[1], out)
	case name == "artifacts" && len(args) == 2:
		return r.artifacts(ctx, args[0], args[1], platforms, out)
	case name == "names" && len(args) <= 1:
		return r.names(ctx, strings.Join(args, ""), out)
	}
	return errUsage
}

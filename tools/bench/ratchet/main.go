// Command ratchet compares what mcpwire costs in the work tree with what it cost in an earlier
// commit, and fails if something has become dearer.
//
//	go run ./ratchet [-rounds N] [-turn TIME] [-slower FACTOR] [-run TEXT] [BASE]
//
// BASE is a commit. The default is the newest tag or, if there is none, the newest commit that is a
// day old. The command builds [program] with both, lets the two run in turn for several rounds, and
// prints a table. A cost is worse if it has grown by more than 5 %; a cost in time only if, moreover,
// the two sets of rounds do not overlap. What is worse after the first rounds must be worse
// again in three times twice as many, so that other load of the machine is not taken for a loss.
//
// The flag -slower lets times grow by another factor. On a machine that does other work, even the
// time of the same code differs by more than 5 % between two builds: .ci/check allows more, and holds
// only allocations and memory, which do not depend on load, to 5 %.
//
// A loss that is intended has a line in accepted.md, new since BASE, that begins with "- " and the
// name of the benchmark, followed by a colon and the reason. Benchmarks that BASE cannot build are
// new, and not compared. Files in folders of program/testdata take the place of those that an old
// commit cannot build.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && err != flag.ErrHelp {
		fmt.Fprintln(os.Stderr, "ratchet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("ratchet", flag.ContinueOnError)
	rounds := flags.Int("rounds", 3, "let each commit run this `NUMBER` of times")
	turn := flags.Duration("turn", 200*time.Millisecond, "repeat each benchmark for this `TIME`")
	slower := flags.Float64("slower", tolerance, "let times grow by this `FACTOR`")
	only := flags.String("run", "", "compare only benchmarks whose name contains `TEXT`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 1 || *rounds < 1 {
		return errors.New("want at most one commit, and at least one round")
	}
	root, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	base, err := findBase(ctx, root, flags.Arg(0))
	if err == errNoBase {
		fmt.Fprintf(out, "Nothing to compare with: %v.\n", err)
		return nil
	} else if err != nil {
		return err
	}
	accepted, err := acceptedSince(ctx, root, base)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "ratchet")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	old := filepath.Join(work, "base")
	if _, err := git(ctx, root, "clone", "--quiet", "--shared", "--no-checkout", root, old); err != nil {
		return err
	}
	if _, err := git(ctx, old, "checkout", "--quiet", "--detach", base); err != nil {
		return err
	}
	var programs [2]string
	for i, tree := range []string{old, root} {
		var left []string
		if programs[i], left, err = build(ctx, root, tree, filepath.Join(work, strconv.Itoa(i))); err != nil {
			return err
		}
		if len(left) > 0 {
			fmt.Fprintf(out, "%s cannot build %s, which are not compared.\n", base, strings.Join(left, ", "))
		}
	}
	c := comparison{programs: programs, turn: *turn, slower: *slower}
	if err := c.measure(ctx, *rounds, *only); err != nil {
		return err
	}
	for range confirmations {
		if err := c.measureAgain(ctx, 2**rounds); err != nil {
			return err
		}
	}
	c.print(out)
	var failures []error
	for _, r := range c.rows {
		reason, ok := accepted[r.name]
		switch {
		case !r.worse(c.slower):
		case ok:
			fmt.Fprintf(out, "accepted: %s: %s\n", r.name, reason)
		default:
			failures = append(failures, fmt.Errorf("%s, %s: %.4g, was %.4g", r.name, r.unit, r.cost(1), r.cost(0)))
		}
	}
	if len(failures) > 0 {
		return fmt.Errorf("worse than %s, and not in accepted.md:\n%w", base, errors.Join(failures...))
	}
	return nil
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	return output(ctx, dir, nil, "git", args...)
}

// output returns what a command prints.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, &stdout, &stderr, append(os.Environ(), env...)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	return strings.TrimSpace(stdout.String()), nil
}

var errNoBase = errors.New("there is no tag, and no commit that is a day old")

func findBase(ctx context.Context, root, given string) (string, error) {
	if given == "" {
		if tag, err := git(ctx, root, "describe", "--tags", "--abbrev=0"); err == nil {
			given = tag
		} else if given, err = git(ctx, root, "rev-list", "-1", "--before=1 day ago", "HEAD"); err != nil {
			return "", err
		}
	}
	if given == "" {
		return "", errNoBase
	}
	return git(ctx, root, "rev-parse", "--short", given+"^{commit}")
}

const acceptedFile = "tools/bench/accepted.md"

// acceptedSince returns the reasons of the losses that are accepted, by the name of the benchmark.
func acceptedSince(ctx context.Context, root, base string) (map[string]string, error) {
	now, err := os.ReadFile(filepath.Join(root, acceptedFile))
	if err != nil {
		return nil, err
	}
	before, err := git(ctx, root, "show", base+":"+acceptedFile)
	if err != nil {
		before = "" // the file is newer
	}
	return newLines(before, string(now)), nil
}

func newLines(before, now string) map[string]string {
	known := strings.Split(before, "\n")
	reasons := make(map[string]string)
	for line := range strings.Lines(now) {
		line = strings.TrimSpace(line)
		item, ok := strings.CutPrefix(line, "- ")
		if name, reason, found := strings.Cut(item, ": "); ok && found && !slices.Contains(known, line) {
			reasons[name] = reason
		}
	}
	return reasons
}

// build builds the program of root with the module of tree. It returns the path of the program, and
// the files that tree cannot build. The program is built in dir, in a module with the path of
// tools/bench, so that its imports stay as they are.
func build(ctx context.Context, root, tree, dir string) (path string, left []string, err error) {
	const module = "github.com/mcpwire/mcpwire"
	mod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		return "", nil, err
	}
	text := strings.Replace(string(mod), "module "+module, "module "+module+"/tools/bench", 1)
	text += fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", module, tree)
	bench := filepath.Join(root, "tools", "bench")
	for _, part := range []string{"ratchet/program", "internal/messages", "internal/processor"} {
		sources, err := filepath.Glob(filepath.Join(bench, part, "*.go"))
		if err != nil {
			return "", nil, err
		}
		for _, source := range sources {
			if !strings.HasSuffix(source, "_test.go") {
				if err := copyFile(source, filepath.Join(dir, part)); err != nil {
					return "", nil, err
				}
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(text), 0o644); err != nil {
		return "", nil, err
	}
	if err := copyFile(filepath.Join(tree, "go.sum"), dir); err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "program")
	tried := make(map[string]int) // by file, how many of the folders
	for {
		_, failure := output(ctx, dir, []string{"GOWORK=off"}, "go", "build", "-mod=mod", "-gcflags=-e", "-o", path, "./ratchet/program")
		if failure == nil {
			return path, left, nil
		}
		faulty := faultyFiles(failure.Error())
		if len(faulty) == 0 {
			return "", nil, failure
		}
		replaced := false
		for _, name := range faulty {
			for found := false; !found && tried[name] < len(earlier); tried[name]++ {
				older := filepath.Join(bench, "ratchet", "program", "testdata", earlier[tried[name]], name)
				switch err := copyFile(older, filepath.Join(dir, "ratchet", "program")); {
				case err == nil:
					found, replaced = true, true
				case !errors.Is(err, fs.ErrNotExist):
					return "", nil, err
				}
			}
		}
		if replaced { // the errors of the other files may be due to these
			continue
		}
		for _, name := range faulty {
			if err := os.Remove(filepath.Join(dir, "ratchet", "program", name)); err != nil {
				return "", nil, failure
			}
		}
		left = append(left, faulty...)
	}
}

// earlier are the folders of program/testdata that hold files for an earlier API, the latest first:
// [server.Options] named Config, options of clients without groups of fields, functions such as
// [server.AddTool] that return an error beside the handle, configurations without groups of fields,
// and servers without [server.Server.ServeStdio].
var earlier = []string{"config", "ungroupedclient", "pairs", "ungrouped", "older"}

var faults = regexp.MustCompile(`(?m)^ratchet/program/(\w+\.go):\d+`)

// faultyFiles returns the names of the files in messages of the compiler.
func faultyFiles(text string) []string {
	var names []string
	for _, match := range faults.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func copyFile(path, dir string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o644)
}

// Command mcpwire works with messages and schemas of the Model Context Protocol. Run it
// with -h for a list of commands, and a command with -h for its help and an example.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/console"
	"github.com/mcpwire/mcpwire/tools/mcpwire/internal/printable"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...) // all of them end the server, too
	defer stop()
	context.AfterFunc(ctx, func() { // restores the default: a second Ctrl-C kills the process
		time.Sleep(sameSignal)
		stop()
	})
	os.Exit(run(ctx, streams{os.Stdin, forTerminal(os.Stdout), forTerminal(os.Stderr)}, os.Args[1:]))
}

// sameSignal is the time after a signal in which another one counts as the same. The command
// timeout sends each signal twice: to its child, and to the process group of both.
const sameSignal = 100 * time.Millisecond

// forTerminal returns a writer to f. If f is a terminal, the writer escapes control characters,
// because the text may come from other programs.
func forTerminal(f *os.File) io.Writer {
	if printable.IsTerminal(f) {
		return printable.NewWriter(f)
	}
	return f
}

// The exit codes.
const (
	exitOK    = 0
	exitFault = 1 // the input has faults, or the command failed
	exitUsage = 2 // the command line is invalid
)

// streams are the input and output of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// command is one row of the command table.
type command struct {
	name  string // the words after mcpwire, such as "schema diff"
	args  string // flags and arguments, for the usage line
	short string // a description in one line
	help  string // a full description with an example, for -h
	plain bool   // flags end at the first argument
	// setup declares the command's flags and returns the function that runs the command once they
	// are parsed. The function gets the arguments without flags. It returns an error of usagef for
	// invalid arguments, errFaults if it has reported faults itself, or any other error, which is
	// printed.
	setup func(*flag.FlagSet) func(ctx context.Context, s streams, args []string) error
}

// commands is the command table.
func commands() []command {
	all := []command{
		decode(),
		playDemo(),
		newProject(),
		serve(),
		record(),
		showTrace(),
		generate(),
		schemaSync(),
		schemaDiff(),
		call(),
	}
	all = append(all, taskCommands()...)
	all = append(all, listCommands()...)
	all = append(all, skillCommands()...)
	return append(all, logout(), version())
}

// errFaults means that the command has already reported its faults on standard error.
var errFaults = errors.New("faults found")

// usageError reports an invalid command line.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// run runs the command named by args and returns the exit code.
func run(ctx context.Context, s streams, args []string) int {
	if len(args) > 0 && isHelp(args[0]) {
		if len(args) == 1 {
			overview(s.out, commands())
			return exitOK
		}
		args = append(slices.Clone(args[1:]), "-h") // mcpwire help COMMAND
	}
	c, rest := find(commands(), args)
	if c == nil {
		return unknown(s, args)
	}
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are printed below
	action := c.setup(flags)
	rest, err := parse(flags, rest, c.plain)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(s.out, c, flags)
		return exitOK
	case err != nil:
		err = usagef("%v", err)
	default:
		err = action(ctx, s, rest)
	}
	var invalid *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFaults):
		return exitFault
	case errors.As(err, &invalid):
		fmt.Fprintf(s.err, "mcpwire %s: %s\nusage: mcpwire %s\nRun 'mcpwire %s -h' for help.\n", c.name, printable.Error(err), c.line(), c.name)
		return exitUsage
	default:
		// Text of a server may follow a line break. The prefix distinguishes it from lines of
		// mcpwire.
		fmt.Fprintf(s.err, "mcpwire %s: %s\n", c.name, strings.ReplaceAll(printable.Error(err), "\n", "\n"+console.Prefix))
		return exitFault
	}
}

// parse parses the flags in args and returns the arguments. Flags may follow arguments, unless
// plain is set. They end at "--".
func parse(flags *flag.FlagSet, args []string, plain bool) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		parsed := len(args) - flags.NArg()
		if plain || flags.NArg() == 0 || parsed > 0 && args[parsed-1] == "--" {
			return append(rest, flags.Args()...), nil
		}
		rest, args = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}

// find returns the command that args begin with, and the arguments after its name.
func find(commands []command, args []string) (*command, []string) {
	for i, c := range commands {
		words := strings.Fields(c.name)
		if len(args) >= len(words) && strings.Join(args[:len(words)], " ") == c.name {
			return &commands[i], args[len(words):]
		}
	}
	return nil, nil
}

// unknown handles a command line that does not name a command: it is empty, names a group
// such as "schema", with or without -h, or names an unknown command.
func unknown(s streams, args []string) int {
	var group []command
	if len(args) > 0 {
		for _, c := range commands() {
			if strings.HasPrefix(c.name, args[0]+" ") {
				group = append(group, c)
			}
		}
	}
	switch {
	case len(group) > 0 && len(args) > 1 && isHelp(args[1]):
		overview(s.out, group)
		return exitOK
	case len(args) == 0:
		overview(s.err, commands())
	case len(group) > 0:
		if len(args) > 1 {
			fmt.Fprintf(s.err, "mcpwire: unknown command %q; the commands are\n\n", args[0]+" "+args[1])
			list(s.err, group)
		} else {
			overview(s.err, group)
		}
	default:
		fmt.Fprintf(s.err, "mcpwire: unknown command %q; run 'mcpwire -h' for a list\n", args[0])
	}
	return exitUsage
}

func isHelp(arg string) bool {
	return arg == "-h" || arg == "-help" || arg == "--help" || arg == "help"
}

func (c *command) line() string {
	return strings.TrimSpace(c.name + " " + c.args)
}

func overview(w io.Writer, commands []command) {
	fmt.Fprint(w, "mcpwire works with servers, messages and schemas of the Model Context Protocol.\n\n")
	list(w, commands)
}

func list(w io.Writer, commands []command) {
	for _, c := range commands {
		fmt.Fprintf(w, "  mcpwire %-12s  %s\n", c.name, c.short)
	}
	fmt.Fprint(w, "\nRun 'mcpwire COMMAND -h' for help on a command, with an example.\n")
}

func usage(w io.Writer, c *command, flags *flag.FlagSet) {
	fmt.Fprintf(w, "usage: mcpwire %s\n\n%s\n", c.line(), strings.TrimSpace(c.help))
	any := false
	flags.VisitAll(func(*flag.Flag) { any = true })
	if any {
		fmt.Fprint(w, "\nFlags:\n")
		flags.SetOutput(w)
		flags.PrintDefaults()
	}
}

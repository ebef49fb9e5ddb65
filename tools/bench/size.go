package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpwire/mcpwire/tools/bench/internal/processor"
	"github.com/mcpwire/mcpwire/tools/bench/internal/stat"
)

const (
	module = "github.com/mcpwire/mcpwire"
	plain  = module + "/tools/bench/internal/size/plain"
	typed  = module + "/tools/bench/internal/size/typed"
)

// sizes is the output of the command size.
type sizes struct {
	Go       string    `json:"go"`
	CPUs     int       `json:"cpus"`
	Lines    []lines   `json:"lines"`
	Programs []program `json:"programs"`
}

// lines counts the lines of a package without tests.
type lines struct {
	Package   string `json:"package"`
	Generated int    `json:"generated"`
	Written   int    `json:"written"` // by hand
}

// program is the cost of building a program. Times are medians in seconds, from an empty build
// cache. They are processor time, or clock time if the system does not report that.
type program struct {
	Package  string  `json:"package"`
	Standard float64 `json:"standardSeconds"` // compiling packages of the standard library
	Packages float64 `json:"packagesSeconds"` // compiling packages of this repository
	Link     float64 `json:"linkSeconds"`     // compiling package main, and linking
	Binary   int64   `json:"binaryBytes"`
	Stripped int64   `json:"strippedBytes"` // without symbols and debugging information
}

func runSize(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("size", flag.ContinueOnError)
	flags.SetOutput(stderr)
	asJSON := flags.Bool("json", false, "print JSON")
	runs := flags.Int("runs", 1, "build each program this `NUMBER` of times with an empty cache; times are medians")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *runs < 1:
		return fmt.Errorf("-runs must be positive")
	}
	s := sizes{Go: runtime.Version(), CPUs: runtime.GOMAXPROCS(0)}
	root, _, err := goTool("", "list", "-m", "-f", "{{.Dir}}", module)
	if err != nil {
		return err
	}
	for _, name := range []string{"mcp", "mcp/ext/tasks", "codec", "codec/jsonrpc"} {
		l, err := countLines(os.DirFS(filepath.Join(strings.TrimSpace(root), name)))
		if err != nil {
			return err
		}
		l.Package = name
		s.Lines = append(s.Lines, l)
	}
	for _, name := range []string{plain, typed} {
		p, err := buildOften(name, *runs, stderr)
		if err != nil {
			return err
		}
		s.Programs = append(s.Programs, p)
	}
	if *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "\t")
		return e.Encode(s)
	}
	_, err = io.WriteString(stdout, s.markdown())
	return err
}

// countLines counts the lines of the Go files in a folder.
func countLines(dir fs.FS) (lines, error) {
	names, err := fs.Glob(dir, "*.go")
	if err != nil {
		return lines{}, err
	}
	var l lines
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return lines{}, err
		}
		n := bytes.Count(text, []byte{'\n'})
		if bytes.HasPrefix(text, []byte("// Code generated ")) {
			l.Generated += n
		} else {
			l.Written += n
		}
	}
	return l, nil
}

func buildOften(name string, runs int, progress io.Writer) (program, error) {
	var p program
	var times [3][]float64
	for i := range runs {
		fmt.Fprintf(progress, "building %s, %d of %d\n", name, i+1, runs)
		var err error
		if p, err = build(name); err != nil {
			return p, err
		}
		for i, t := range []float64{p.Standard, p.Packages, p.Link} {
			times[i] = append(times[i], t)
		}
	}
	p.Standard, p.Packages, p.Link = stat.Median(times[0]), stat.Median(times[1]), stat.Median(times[2])
	return p, nil
}

// build builds a program in stages, from an empty cache.
func build(name string) (program, error) {
	p := program{Package: name}
	dir, err := os.MkdirTemp("", "bench-size-")
	if err != nil {
		return p, err
	}
	defer os.RemoveAll(dir)
	cache, binary := filepath.Join(dir, "cache"), filepath.Join(dir, "program")
	standard, own, err := needs(name)
	if err != nil {
		return p, err
	}
	for _, stage := range []struct {
		seconds *float64
		args    []string
	}{
		{&p.Standard, append([]string{"build"}, standard...)},
		{&p.Packages, append([]string{"build"}, own...)},
		{&p.Link, []string{"build", "-o", binary, name}},
	} {
		if len(stage.args) == 1 {
			continue
		}
		if _, *stage.seconds, err = goTool(cache, stage.args...); err != nil {
			return p, err
		}
	}
	if p.Binary, err = fileSize(binary); err != nil {
		return p, err
	}
	if _, _, err := goTool(cache, "build", "-ldflags=-s -w", "-o", binary, name); err != nil {
		return p, err
	}
	p.Stripped, err = fileSize(binary)
	return p, err
}

// needs returns the packages that a program imports, directly or indirectly.
func needs(name string) (standard, own []string, err error) {
	out, _, err := goTool("", "list", "-deps", "-f", "{{.Standard}} {{.ImportPath}}", name)
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.Lines(out) {
		isStandard, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case path == name || path == "unsafe": // unsafe is not compiled
		case isStandard == "true":
			standard = append(standard, path)
		default:
			own = append(own, path)
		}
	}
	return standard, own, nil
}

// goTool runs the go command and returns its time in seconds. It uses a separate build cache,
// unless cache is "".
func goTool(cache string, args ...string) (out string, seconds float64, err error) {
	c := exec.Command("go", args...)
	c.Env = os.Environ()
	if cache != "" {
		c.Env = append(c.Env, "GOCACHE="+cache)
	}
	var stderr strings.Builder
	c.Stderr = &stderr
	start := time.Now()
	text, err := c.Output()
	if err != nil {
		return "", 0, fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.String())
	}
	took := time.Since(start)
	if processor.Time() > 0 { // includes the compilers that go has started
		took = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	return string(text), took.Seconds(), nil
}

func fileSize(name string) (int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (s sizes) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d CPUs.\n\nLines of Go without tests\n\n", s.Go, s.CPUs)
	table := [][]string{{"package", "generated", "by hand", "together"}}
	for _, l := range s.Lines {
		table = append(table, []string{l.Package, strconv.Itoa(l.Generated), strconv.Itoa(l.Written), strconv.Itoa(l.Generated + l.Written)})
	}
	b.WriteString(align(table))
	b.WriteString("\nA program that decodes and encodes messages: CPU seconds to build it from an empty cache, and size in kilobytes\n\n")
	table = [][]string{{"program", "standard library", "our packages", "main and linking", "all", "binary", "stripped"}}
	row := func(name string, p program) []string {
		line := []string{name}
		for _, t := range []float64{p.Standard, p.Packages, p.Link, p.Standard + p.Packages + p.Link} {
			line = append(line, fmt.Sprintf("%.1f", t))
		}
		return append(line, strconv.FormatInt(p.Binary/1000, 10), strconv.FormatInt(p.Stripped/1000, 10))
	}
	i := slices.IndexFunc(s.Programs, func(p program) bool { return p.Package == plain })
	j := slices.IndexFunc(s.Programs, func(p program) bool { return p.Package == typed })
	a, c := s.Programs[i], s.Programs[j]
	table = append(table, row("with encoding/json alone", a), row("with mcp", c), row("difference", program{
		Standard: c.Standard - a.Standard, Packages: c.Packages - a.Packages, Link: c.Link - a.Link,
		Binary: c.Binary - a.Binary, Stripped: c.Stripped - a.Stripped,
	}))
	b.WriteString(align(table))
	return b.String()
}

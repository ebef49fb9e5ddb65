package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/bytedance/sonic"

	"github.com/mcpwire/mcpwire/tools/bench/internal/messages"
)

// report is the output of the command codec.
type report struct {
	Go      string            `json:"go"`
	System  string            `json:"system"`
	CPU     string            `json:"cpu,omitempty"`
	CPUs    int               `json:"cpus"`
	Rounds  int               `json:"rounds"`
	Turn    string            `json:"turn"`
	Clock   string            `json:"clock"`
	Modules map[string]string `json:"modules"` // versions of the contestants, by name
	Rows    []row             `json:"rows"`
}

// row is one operation on one message.
type row struct {
	Operation string   `json:"operation"`
	Message   string   `json:"message"`
	Title     string   `json:"title"`
	Size      int      `json:"bytes"`
	Unseen    bool     `json:"unseen,omitempty"`
	Samples   []sample `json:"samples"`
	// Speed of mcpwire relative to others: medians over the rounds, not quotients of the medians.
	Ratios []versus `json:"ratios"`
}

// versus is the speed of mcpwire relative to one contestant.
type versus struct {
	With  string  `json:"with"`
	Times float64 `json:"times"`
	Best  bool    `json:"best,omitempty"` // the contestant is the fastest of its role in this row
	role  role
}

func runCodec(args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("codec", flag.ContinueOnError)
	flags.SetOutput(stderr)
	asJSON := flags.Bool("json", false, "print JSON")
	filter := flags.String("filter", "", "measure only names that match `REGEXP`; names are OPERATION/MESSAGE/CONTESTANT")
	rounds := flags.Int("rounds", 30, "give each contestant this `NUMBER` of turns")
	turn := flags.Duration("turn", 10*time.Millisecond, "let a turn take this `TIME`")
	wall := flags.Bool("wall", false, "measure clock time instead of processor time")
	fastest := flags.Bool("min", false, "print the fastest turn instead of the median")
	short := flags.Bool("short", false, "print only ratios for other contestants")
	variants := flags.Bool("variants", false, "also measure other ways to use mcpwire")
	quiet := flags.Bool("quiet", false, "print no progress on standard error")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*filter)
	switch {
	case err != nil:
		return fmt.Errorf("-filter: %w", err)
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *rounds < 1 || *turn <= 0:
		return fmt.Errorf("-rounds and -turn must be positive")
	}
	list := contestants()
	if !*variants {
		list = slices.DeleteFunc(list, func(c contestant) bool { return c.role == roleVariant })
	}
	now, name := clock(*wall)
	progress := stderr
	if *quiet {
		progress = io.Discard
	}
	r, err := measureAll(plan{*rounds, *turn, now}, list, pattern, progress)
	if err != nil {
		return err
	}
	r.Clock = name
	if *asJSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "\t")
		return e.Encode(r)
	}
	_, err = io.WriteString(stdout, r.markdown(*fastest, *short))
	return err
}

// measureAll measures all names that match the pattern.
func measureAll(p plan, contestants []contestant, pattern *regexp.Regexp, progress io.Writer) (*report, error) {
	r := newReport(p)
	for _, m := range messages.All() {
		entries := make([]entry, 0, len(contestants))
		for _, c := range contestants {
			e, err := c.enter(m)
			if err != nil {
				return nil, fmt.Errorf("%s/%s: %w", m.Name, c.name, err)
			}
			entries = append(entries, e)
		}
		for _, o := range operations() {
			var runners []runner
			for i, c := range contestants {
				if run := o.of(entries[i]); run != nil && pattern.MatchString(o.name+"/"+m.Name+"/"+c.name) {
					runners = append(runners, runner{c, run})
				}
			}
			if len(runners) == 0 {
				continue
			}
			fmt.Fprintf(progress, "%s/%s\n", o.name, m.Name)
			samples, err := p.measure(runners)
			if err != nil {
				return nil, fmt.Errorf("%s/%s: %w", o.name, m.Name, err)
			}
			r.Rows = append(r.Rows, row{o.name, m.Name, m.Title, len(m.Data), m.Unseen, samples, compare(samples)})
		}
	}
	return r, nil
}

func newReport(p plan) *report {
	r := &report{
		Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPU: cpu(), CPUs: runtime.GOMAXPROCS(0),
		Rounds: p.rounds, Turn: p.turn.String(), Modules: map[string]string{},
	}
	built, _ := debug.ReadBuildInfo()
	for _, c := range contestants() {
		if c.module == "" || built == nil {
			continue
		}
		for _, d := range built.Deps {
			if d.Path == c.module {
				r.Modules[c.name] = d.Version
			}
		}
	}
	if sonic.APIKind != sonic.UseSonicJSON {
		r.Modules["sonic"] += " (falls back to encoding/json here)"
	}
	return r
}

// cpu returns the name of the processor, or "" if the system does not report it.
func cpu() string {
	file, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// compare returns the ratios of a row, or none if mcpwire was not measured.
func compare(samples []sample) []versus {
	var list []versus
	best := map[role]int{} // index in list
	for _, us := range samples {
		if us.role != roleOurs {
			continue
		}
		for _, s := range samples {
			if s.role == roleOurs || s.role == roleVariant {
				continue
			}
			list = append(list, versus{With: s.Contestant, Times: ratio(us, s), role: s.role})
			i := len(list) - 1
			if j, ok := best[s.role]; !ok || list[i].Times < list[j].Times {
				best[s.role] = i
			}
		}
	}
	for _, i := range best {
		list[i].Best = true
	}
	return list
}

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// markdown returns the report as tables: for each operation, one for the messages of the published
// table and one for the unseen ones. They show the median turns or, if fastest is set, the fastest
// ones. Ratios are always medians. A short report omits the speed of other contestants.
func (r *report) markdown(fastest, short bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d CPUs", r.Go, r.System, r.CPUs)
	if r.CPU != "" {
		fmt.Fprintf(&b, " (%s)", r.CPU)
	}
	which := "medians"
	if fastest {
		which = "the fastest"
	}
	fmt.Fprintf(&b, "; %s of %d rounds of %s, %s on one CPU.\n", which, r.Rounds, r.Turn, r.Clock)
	var peers []string
	for _, name := range slices.Sorted(maps.Keys(r.Modules)) {
		peers = append(peers, name+" "+r.Modules[name])
	}
	fmt.Fprintf(&b, "Peers: %s.\n", strings.Join(peers, ", "))
	for _, o := range operations() {
		for _, unseen := range []bool{false, true} {
			rows := slices.DeleteFunc(slices.Clone(r.Rows), func(x row) bool { return x.Operation != o.name || x.Unseen != unseen })
			if len(rows) == 0 {
				continue
			}
			title := strings.ToUpper(o.name[:1]) + o.name[1:]
			if unseen {
				title += ", messages the codec is not tuned for"
			}
			fmt.Fprintf(&b, "\n%s: MB/s (allocations), then the speed of mcpwire relative to others\n\n", title)
			b.WriteString(table(rows, fastest, short))
		}
	}
	return b.String()
}

// table returns rows of one operation as a Markdown table with aligned columns.
func table(rows []row, fastest, short bool) string {
	var names, against []string
	for _, c := range contestants() { // in their order, and only those with results
		if (!short || c.role == roleOurs) && slices.ContainsFunc(rows, func(r row) bool { return r.sample(c.name) != nil }) {
			names = append(names, c.name)
		}
		if (c.role == roleSDK || c.role == roleScan) && slices.ContainsFunc(rows, func(r row) bool { return r.versus(c.name) != nil }) {
			against = append(against, c.name)
		}
	}
	head := append([]string{"message", "bytes"}, names...)
	var groups []role
	for _, g := range []role{roleEngine, roleTuned} {
		if slices.ContainsFunc(rows, func(r row) bool { return r.best(g) != nil }) {
			groups = append(groups, g)
			head = append(head, map[role]string{roleEngine: "/ best engine", roleTuned: "/ best tuned"}[g])
		}
	}
	for _, name := range against {
		head = append(head, "/ "+name)
	}
	lines := [][]string{head}
	for _, r := range rows {
		line := []string{r.Title, strconv.Itoa(r.Size)}
		for _, name := range names {
			line = append(line, r.speed(name, fastest))
		}
		for _, g := range groups {
			cell := "–"
			if v := r.best(g); v != nil {
				cell = fmt.Sprintf("%.2f %s", v.Times, strings.TrimSuffix(v.With, "-tuned"))
			}
			line = append(line, cell)
		}
		for _, name := range against {
			cell := "–"
			if v := r.versus(name); v != nil {
				cell = fmt.Sprintf("%.2f", v.Times)
			}
			line = append(line, cell)
		}
		lines = append(lines, line)
	}
	return align(lines)
}

func (r row) sample(contestant string) *sample {
	for i := range r.Samples {
		if r.Samples[i].Contestant == contestant {
			return &r.Samples[i]
		}
	}
	return nil
}

func (r row) versus(contestant string) *versus {
	for i := range r.Ratios {
		if r.Ratios[i].With == contestant {
			return &r.Ratios[i]
		}
	}
	return nil
}

// best returns the comparison with the fastest contestant of a role.
func (r row) best(of role) *versus {
	for i := range r.Ratios {
		if r.Ratios[i].Best && r.Ratios[i].role == of {
			return &r.Ratios[i]
		}
	}
	return nil
}

func (r row) speed(contestant string, fastest bool) string {
	s := r.sample(contestant)
	if s == nil {
		return "–"
	}
	ns := s.Median
	if fastest {
		ns = s.Min
	}
	return fmt.Sprintf("%.0f (%d)", float64(r.Size)/ns*1000, s.Allocs)
}

// align formats lines, the first of which is the head, as a table. The first column is aligned
// left, numbers right.
func align(lines [][]string) string {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", width-1) + ":"
	}
	rule[0] = strings.Repeat("-", widths[0])
	var b strings.Builder
	for _, line := range slices.Insert(slices.Clone(lines), 1, rule) {
		for i, cell := range line {
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				cell += space
			} else {
				cell = space + cell
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
	}
	return b.String()
}

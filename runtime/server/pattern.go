package server

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// pattern matches URIs against an RFC 6570 template, in time that is linear in the length of the URI.
type pattern struct {
	re   *regexp.Regexp
	vars []variable // one for each group of re
}

// variable is a variable of a template, and the syntax that separates the values in its group.
type variable struct {
	name string
	sep  string // between two values; "" if the group is one value
	key  string // prefix of each value, such as "v="; "" for none
}

// operator says how the variables of an expression are written (RFC 6570, Appendix A).
type operator struct {
	first, sep string
	named      bool
	empty      string // behind the name of an empty value, if named
	reserved   bool   // reserved characters stand for themselves
}

func operators() map[byte]operator {
	return map[byte]operator{
		0:   {sep: ","},
		'+': {sep: ",", reserved: true},
		'#': {first: "#", sep: ",", reserved: true},
		'.': {first: ".", sep: "."},
		'/': {first: "/", sep: "/"},
		';': {first: ";", sep: ";", named: true},
		'?': {first: "?", sep: "&", named: true, empty: "="},
		'&': {first: "&", sep: "&", named: true, empty: "="},
	}
}

const (
	unreservedClass = `[A-Za-z0-9._~-]`
	reservedClass   = `[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]`
)

// maxPrefix is the largest length of a prefix modifier that a pattern can count to.
const maxPrefix = 1000

// newPattern compiles a template that is known to be valid.
func newPattern(template string) (*pattern, error) {
	p := &pattern{}
	var b strings.Builder
	b.WriteString("^")
	for rest := template; rest != ""; {
		literal, expression, found := strings.Cut(rest, "{")
		b.WriteString(regexp.QuoteMeta(literal))
		if !found {
			break
		}
		expression, rest, _ = strings.Cut(expression, "}")
		if err := p.add(&b, expression); err != nil {
			return nil, err
		}
	}
	b.WriteString("$")
	re, err := regexp.Compile(b.String())
	p.re = re
	return p, err
}

// add writes the regular expression of an expression of the template. Any of its variables may be undefined.
func (p *pattern) add(b *strings.Builder, expression string) error {
	known := operators()
	op, ok := known[expression[0]]
	if ok {
		expression = expression[1:]
	} else {
		op = known[0]
	}
	b.WriteString("(?:" + regexp.QuoteMeta(op.first))
	for i, spec := range strings.Split(expression, ",") {
		b.WriteString("(?:")
		if i > 0 {
			b.WriteString("(?:" + regexp.QuoteMeta(op.sep) + ")?")
		}
		if err := p.addVariable(b, op, spec); err != nil {
			return err
		}
		b.WriteString(")?")
	}
	b.WriteString(")?")
	return nil
}

// addVariable writes the regular expression of a variable: a value, or a list of values.
func (p *pattern) addVariable(b *strings.Builder, op operator, spec string) error {
	name, explode := strings.CutSuffix(spec, "*")
	name, prefix, cut := strings.Cut(name, ":")
	class, repeat := unreservedClass, "*"
	if op.reserved {
		class = reservedClass
	}
	if cut {
		n, err := strconv.Atoi(prefix)
		if err != nil || n > maxPrefix {
			return fmt.Errorf("prefix of %s characters, want at most %d", prefix, maxPrefix)
		}
		repeat = "{0," + prefix + "}"
	}
	value := "(?:" + class + "|%[0-9A-Fa-f]{2})" + repeat
	v, sep := variable{name: name, sep: ","}, ","
	if explode {
		v.sep, sep = op.sep, op.sep
	}
	if !op.named && (op.reserved || v.sep == ".") {
		v.sep = "" // the separator may be part of a value, so the list is taken for one
	}
	sep, label := regexp.QuoteMeta(sep), regexp.QuoteMeta(name)
	empty := regexp.QuoteMeta(op.empty)
	switch {
	case op.named && explode:
		v.key = name + "="
		pair := label + "(?:=" + value + "|" + empty + ")"
		b.WriteString("(" + pair + "(?:" + sep + pair + ")*)?")
	case op.named:
		b.WriteString(label + "(?:=(" + value + "(?:" + sep + value + ")*)|" + empty + ")")
	default: // lazy, so that what follows a separator may be the next variable
		b.WriteString("(" + value + "(?:" + sep + value + ")*?)")
	}
	p.vars = append(p.vars, v)
	return nil
}

// match returns the decoded values of the variables in a URI; ok is false if the template does not expand to it.
func (p *pattern) match(uri string) (values url.Values, ok bool) {
	at := p.re.FindStringSubmatchIndex(uri)
	if at == nil {
		return nil, false
	}
	values = url.Values{}
	for i, v := range p.vars {
		from, to := at[2*i+2], at[2*i+3]
		if from < 0 {
			continue
		}
		for _, value := range v.split(uri[from:to]) {
			decoded, err := url.PathUnescape(value)
			if err != nil {
				return nil, false
			}
			values[v.name] = append(values[v.name], decoded)
		}
	}
	return values, true
}

// split returns the values of a group.
func (v variable) split(group string) (list []string) {
	if v.sep == "" {
		return []string{group}
	}
	for value := range strings.SplitSeq(group, v.sep) {
		if v.key != "" {
			var given bool
			if value, given = strings.CutPrefix(value, v.key); !given {
				continue // the name alone
			}
		}
		list = append(list, value)
	}
	return list
}

package server

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// pattern matches URIs against an RFC 6570 template, in time linear in the length of the URI.
type pattern struct {
	re   *regexp.Regexp
	vars []variable // one per group of re
}

// variable is a variable of a template, and the syntax of the values in its group.
type variable struct {
	name string
	sep  string // separator of values; "" if the group is one value
	key  string // prefix of each value, such as "v="; may be empty
}

// operator describes how an expression writes its variables (RFC 6570, Appendix A).
type operator struct {
	prefix, sep string
	named       bool
	empty       string // follows the name of an empty value, if named
	reserved    bool   // reserved characters are not percent-encoded
}

func operators() map[byte]operator {
	return map[byte]operator{
		0:   {sep: ","},
		'+': {sep: ",", reserved: true},
		'#': {prefix: "#", sep: ",", reserved: true},
		'.': {prefix: ".", sep: "."},
		'/': {prefix: "/", sep: "/"},
		';': {prefix: ";", sep: ";", named: true},
		'?': {prefix: "?", sep: "&", named: true, empty: "="},
		'&': {prefix: "&", sep: "&", named: true, empty: "="},
	}
}

const (
	unreservedClass = `[A-Za-z0-9._~-]`
	reservedClass   = `[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]`
)

// maxPrefix limits the length in a prefix modifier, because package regexp limits repetitions.
const maxPrefix = 1000

// newPattern compiles a template, which must be valid.
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

// add writes the regular expression of an expression of the template. Any of its variables may be
// undefined.
func (p *pattern) add(b *strings.Builder, expression string) error {
	known := operators()
	op, ok := known[expression[0]]
	if ok {
		expression = expression[1:]
	} else {
		op = known[0]
	}
	b.WriteString("(?:" + regexp.QuoteMeta(op.prefix))
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
			return fmt.Errorf("prefix of %s characters: want at most %d", prefix, maxPrefix)
		}
		repeat = "{0," + prefix + "}"
	}
	value := "(?:" + class + "|%[0-9A-Fa-f]{2})" + repeat
	v, sep := variable{name: name, sep: ","}, ","
	if explode {
		v.sep, sep = op.sep, op.sep
	}
	if !op.named && (op.reserved || v.sep == ".") {
		v.sep = "" // the separator may be part of a value, so the group is one value
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
	default: // lazy, so that the text after a separator may belong to the next variable
		b.WriteString("(" + value + "(?:" + sep + value + ")*?)")
	}
	p.vars = append(p.vars, v)
	return nil
}

// match returns the decoded values of the variables in a URI; ok is false if the URI does not match
// the template.
func (p *pattern) match(uri string) (values url.Values, ok bool) {
	bounds := p.re.FindStringSubmatchIndex(uri)
	if bounds == nil {
		return nil, false
	}
	values = url.Values{}
	for i, v := range p.vars {
		from, to := bounds[2*i+2], bounds[2*i+3]
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
			var ok bool
			if value, ok = strings.CutPrefix(value, v.key); !ok {
				continue // a name without a value
			}
		}
		list = append(list, value)
	}
	return list
}

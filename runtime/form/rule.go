package form

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/internal/pattern"
	"github.com/mcpwire/mcpwire/mcp"
)

// maxMatchSteps limits the steps of a match of a pattern.
const maxMatchSteps = 1_000_000

// textRule returns the check of a Text field. It applies "pattern" if package regexp can compile
// it, and if the patterns of the form are not too large. The text of the specification has this
// keyword, but its schema lacks it.
func textRule(s *mcp.StringSchema, patterns *pattern.Set) func(Value) error {
	pattern := patternOf(s.Extra, patterns)
	return func(v Value) error {
		text, ok := scalarOf(v).Text()
		if !ok {
			return errors.New("must be a string")
		}
		n := int64(utf8.RuneCountInString(text))
		switch {
		case s.MinLength != nil && n < *s.MinLength:
			return fmt.Errorf("must have at least %d characters", *s.MinLength)
		case s.MaxLength != nil && n > *s.MaxLength:
			return fmt.Errorf("must have at most %d characters", *s.MaxLength)
		case pattern != nil && pattern.Steps(len(text)) > maxMatchSteps:
			return errors.New("is too long to be checked")
		case pattern != nil && !pattern.MatchString(text):
			return fmt.Errorf("must match %s", pattern)
		case s.Format != nil && !inFormat(*s.Format, text):
			return fmt.Errorf("must be in the format %s", *s.Format)
		}
		return nil
	}
}

func patternOf(x wire.Extra, patterns *pattern.Set) *pattern.Pattern {
	raw, ok := x.Get("pattern")
	if !ok {
		return nil
	}
	var p codec.Scalar
	if codec.Unmarshal(raw, &p) != nil {
		return nil
	}
	text, _ := p.Text()
	pattern, err := patterns.Compile(text)
	if err != nil || text == "" {
		return nil
	}
	return pattern
}

// inFormat reports whether text complies with format. Every text complies with an unknown format.
func inFormat(format mcp.StringSchemaFormat, text string) bool {
	var err error
	switch format {
	case mcp.StringSchemaFormatEmail:
		a, err := mail.ParseAddress(text)
		return err == nil && a.Address == text
	case mcp.StringSchemaFormatURI:
		u, err := url.Parse(text)
		return err == nil && u.IsAbs() && !strings.ContainsFunc(text, mustEscape)
	case mcp.StringSchemaFormatDate:
		_, err = time.Parse(time.DateOnly, text)
	case mcp.StringSchemaFormatDateTime:
		return isDateTime(text)
	}
	return err == nil
}

// mustEscape reports whether a character must be escaped in a URI (RFC 3986, section 2).
func mustEscape(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", c)
}

// dateTime matches the syntax of a date-time (RFC 3339, section 5.6).
var dateTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// isDateTime reports whether text is a date-time. It accepts a leap second only at the end of a
// month, in UTC.
func isDateTime(text string) bool {
	text = strings.ToUpper(text)
	if !dateTime.MatchString(text) {
		return false
	}
	const second = len("2006-01-02T15:04:")
	leap := text[second:second+2] == "60"
	if leap {
		text = text[:second] + "59" + text[second+2:]
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !leap {
		return err == nil
	}
	at = at.UTC()
	return at.Hour() == 23 && at.Minute() == 59 && at.AddDate(0, 0, 1).Day() == 1
}

func numberRule(s *mcp.NumberSchema) func(Value) error {
	return func(v Value) error {
		n, ok := scalarOf(v).Number()
		if !ok {
			return errors.New("must be a number")
		}
		rounded, err := strconv.ParseFloat(string(n), 64)
		if err != nil || math.IsInf(rounded, 0) {
			return errors.New("is out of range")
		}
		x, err := exact(string(n))
		switch {
		case err != nil:
			return err
		case s.Type == mcp.NumberSchemaTypeInteger && !n.IsInteger():
			return errors.New("must be a whole number")
		case s.Minimum != nil && x.Cmp(big.NewFloat(*s.Minimum)) < 0:
			return fmt.Errorf("must be at least %v", *s.Minimum)
		case s.Maximum != nil && x.Cmp(big.NewFloat(*s.Maximum)) > 0:
			return fmt.Errorf("must be at most %v", *s.Maximum)
		}
		return nil
	}
}

// maxDigits limits the length of a number, in characters. A number is compared with all its digits,
// which may be more than a float64 holds.
const maxDigits = 1000

// exact parses a number without loss of digits.
func exact(text string) (*big.Float, error) {
	if len(text) > maxDigits {
		return nil, fmt.Errorf("must have at most %d characters", maxDigits)
	}
	x, _, err := big.ParseFloat(text, 10, uint(64+4*len(text)), big.ToNearestEven)
	return x, err
}

func boolRule(v Value) error {
	if _, ok := scalarOf(v).Bool(); !ok {
		return errors.New("must be true or false")
	}
	return nil
}

func choiceRule(options []Option) func(Value) error {
	return func(v Value) error {
		text, ok := scalarOf(v).Text()
		if !ok || !isOption(options, text) {
			return fmt.Errorf("must be one of %s", listed(options))
		}
		return nil
	}
}

func choicesRule(options []Option, least, most *int64) func(Value) error {
	// A set, because a peer's form may have very many options and, as its default, very many values.
	values := make(map[string]bool, len(options))
	for _, o := range options {
		values[o.Value] = true
	}
	return func(v Value) error {
		list, ok := v.(*mcp.ElicitResultContentValueList)
		if !ok {
			return errors.New("must be a list")
		}
		for _, text := range list.Value {
			if !values[text] {
				return fmt.Errorf("%q is not one of %s", text, listed(options))
			}
		}
		switch n := int64(len(list.Value)); {
		case least != nil && n < *least:
			return fmt.Errorf("must have at least %d of the options", *least)
		case most != nil && n > *most:
			return fmt.Errorf("must have at most %d of the options", *most)
		}
		return nil
	}
}

func isOption(options []Option, text string) bool {
	return slices.ContainsFunc(options, func(o Option) bool { return o.Value == text })
}

func listed(options []Option) string {
	values := make([]string, len(options))
	for i, o := range options {
		values[i] = o.Value
	}
	return strings.Join(values, ", ")
}

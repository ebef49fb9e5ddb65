package codec

import (
	"strconv"

	"github.com/mcpwire/mcpwire/codec/internal/scan"
	"github.com/mcpwire/mcpwire/codec/wire"
)

// Number is the exact text of a JSON number. The zero value is not a number and cannot be written.
type Number string

// Int returns the number as an int64; ok is false if it is not an integer, out of range, or no
// number at all. 6e4 is an integer.
func (n Number) Int() (v int64, ok bool) {
	if v, ok := n.plainInt(); ok {
		return v, true
	}
	text, digits, ok := n.scan()
	if !ok {
		return 0, false
	}
	v, exact, ok := scan.ParseInt(text, digits)
	if !ok || !exact {
		return 0, false
	}
	return v, true
}

// plainInt is Int for a number of at most 18 digits and nothing else, such as the ids of requests.
func (n Number) plainInt() (v int64, ok bool) {
	if len(n) == 0 || len(n) > 18 || n[0] == '0' && len(n) > 1 {
		return 0, false
	}
	for i := range len(n) {
		if n[i] < '0' || n[i] > '9' {
			return 0, false
		}
		v = 10*v + int64(n[i]-'0')
	}
	return v, true
}

// Float returns the float64 nearest to the number; ok is false if it is out of range or no number
// at all.
func (n Number) Float() (v float64, ok bool) {
	if _, _, ok := n.scan(); !ok {
		return 0, false
	}
	v, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return 0, false
	}
	return v, true
}

// IsInteger reports whether the number is an integer of any size: 7, 1.0 and 1e400 are.
func (n Number) IsInteger() bool {
	text, digits, ok := n.scan()
	return ok && scan.IsInteger(text, digits)
}

func (n Number) scan() (text []byte, digits, ok bool) {
	if n == "" {
		return nil, false, false
	}
	text = []byte(n)
	end, digits, err := scan.Number(text, 0)
	return text, digits, err == nil && end == len(text)
}

// MarshalJSON returns the number. It fails with [ErrNoValue] if n is empty, and with [ErrSyntax] if
// it is no JSON number.
func (n Number) MarshalJSON() ([]byte, error) {
	return MarshalFunc(func(w *wire.Writer) { w.Number(string(n)) })
}

// UnmarshalJSON reads a number.
func (n *Number) UnmarshalJSON(data []byte) error {
	read, err := UnmarshalFunc(data, func(r *wire.Reader) Number { return Number(r.Number()) })
	if err != nil {
		return err
	}
	*n = read
	return nil
}

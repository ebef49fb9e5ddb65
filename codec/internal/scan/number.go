package scan

import (
	"bytes"
	"math"
	"strconv"
)

// ParseInt returns the int64 nearest to a number and whether the two are equal. ok is false if the
// number is not an integer. digits is the result of Number.
func ParseInt(text []byte, digits bool) (v int64, exact, ok bool) {
	if digits && len(text) <= 18 {
		return smallInt(text), true, true
	}
	d := newDecimal(text)
	if !d.integer() {
		return 0, false, false
	}
	v, exact = d.int64()
	return v, exact, true
}

// smallInt returns an integer of at most 18 bytes, which always fits.
func smallInt(text []byte) int64 {
	if text[0] == '-' {
		return -smallInt(text[1:])
	}
	var v int64
	for _, c := range text {
		v = v*10 + int64(c-'0')
	}
	return v
}

// ParseFloat returns the finite float64 nearest to a number, and whether the shortest decimal of
// that float64 equals the number.
func ParseFloat(text []byte, digits bool) (v float64, exact bool) {
	if digits && len(text) <= 15 && text[0] != '-' {
		return float64(smallInt(text)), true // below 2^53
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return math.Copysign(math.MaxFloat64, v), false
	}
	if !digits && len(text) <= 16 && !bytes.ContainsAny(text, "eE") {
		return v, true // up to 15 digits survive a float64
	}
	var buf [32]byte
	return v, newDecimal(text).equal(newDecimal(strconv.AppendFloat(buf[:0], v, 'e', -1, 64)))
}

// decimal is a number as 0.d1d2d3… × 10^exp, with neither leading nor trailing zeros. Zero has no
// digits. It refers to the text and allocates nothing.
type decimal struct {
	neg    bool
	digits []byte // of the text: may have one '.' among them
	n      int    // how many digits
	exp    int64
}

// hugeExp stands for itself and all larger exponents. No text has enough digits to compensate for
// such an exponent.
const hugeExp = 1 << 60

func newDecimal(text []byte) decimal {
	var d decimal
	if text[0] == '-' {
		d.neg = true
		text = text[1:]
	}
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		d.exp = parseExp(text[i+1:])
		text = text[:i]
	}
	point := bytes.IndexByte(text, '.')
	if point < 0 {
		point = len(text)
	} else {
		text = bytes.TrimRight(text, "0")
		if point == len(text)-1 {
			text = text[:point]
		}
	}
	if point == len(text) {
		text = bytes.TrimRight(text, "0")
	}
	d.exp += int64(point)
	for len(text) > 0 && (text[0] == '0' || text[0] == '.') {
		if text[0] == '0' {
			d.exp--
		}
		text = text[1:]
	}
	d.digits, d.n = text, len(text)
	if bytes.IndexByte(text, '.') >= 0 {
		d.n--
	}
	if d.n == 0 {
		d.exp = 0
	}
	return d
}

// parseExp returns the exponent in text, limited to ±hugeExp.
func parseExp(text []byte) int64 {
	neg := text[0] == '-'
	if neg || text[0] == '+' {
		text = text[1:]
	}
	var v int64
	for _, c := range text {
		if v = v*10 + int64(c-'0'); v > hugeExp {
			v = hugeExp
			break
		}
	}
	if neg {
		return -v
	}
	return v
}

// integer reports whether d has no fraction.
func (d decimal) integer() bool { return d.exp >= int64(d.n) }

// int64 returns the int64 nearest to the integer d, and whether the two are equal.
func (d decimal) int64() (v int64, exact bool) {
	limit := uint64(math.MaxInt64)
	if d.neg {
		limit++
	}
	var u uint64
	if d.exp > 19 {
		u = limit + 1
	} else {
		for _, c := range d.digits {
			if c != '.' {
				u = u*10 + uint64(c-'0') // at most 19 digits, which fit
			}
		}
		for i := int64(d.n); i < d.exp; i++ {
			u *= 10
		}
	}
	if exact = u <= limit; !exact {
		u = limit
	}
	if d.neg {
		return -int64(u), exact // right for 1<<63 too, which wraps to itself
	}
	return int64(u), exact
}

// equal reports whether d and e are the same number.
func (d decimal) equal(e decimal) bool {
	if d.n == 0 || e.n == 0 {
		return d.n == e.n
	}
	if d.neg != e.neg || d.n != e.n || d.exp != e.exp {
		return false
	}
	j := 0
	for _, c := range d.digits {
		if c == '.' {
			continue
		}
		if e.digits[j] == '.' {
			j++
		}
		if c != e.digits[j] {
			return false
		}
		j++
	}
	return true
}

// IsInteger reports whether a number, which [Number] has checked, is an integer of any size. digits
// is what Number returned for it.
func IsInteger(text []byte, digits bool) bool { return digits || newDecimal(text).integer() }

// SameNumber reports whether two numbers, which [Number] has checked, have the same value.
func SameNumber(a, b []byte) bool { return newDecimal(a).equal(newDecimal(b)) }

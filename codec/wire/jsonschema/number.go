package jsonschema

import (
	"bytes"
	"cmp"
	"math/bits"
)

// number is a JSON number taken apart: ±0.DDD × 10^exp, where DDD, the digits of
// whole and frac together, neither starts nor ends with a zero. Zero has no digits.
type number struct {
	neg         bool
	whole, frac []byte
	exp         int64
}

// maxExp stands for itself and all larger exponents. No text has enough digits to compensate for
// such an exponent.
const maxExp = 1 << 60

func parseNumber(text []byte) (n number) {
	if text[0] == '-' {
		n.neg = true
		text = text[1:]
	}
	var exp int64
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		exp = parseExp(text[i+1:])
		text = text[:i]
	}
	n.whole = text
	if i := bytes.IndexByte(text, '.'); i >= 0 {
		n.whole, n.frac = text[:i], bytes.TrimRight(text[i+1:], "0")
	}
	n.whole = bytes.TrimLeft(n.whole, "0")
	n.exp = int64(len(n.whole))
	if len(n.frac) == 0 {
		n.whole = bytes.TrimRight(n.whole, "0")
	}
	if len(n.whole) == 0 {
		all := len(n.frac)
		n.frac = bytes.TrimLeft(n.frac, "0")
		n.exp -= int64(all - len(n.frac))
	}
	n.exp += exp
	return n
}

func parseExp(text []byte) (exp int64) {
	neg := text[0] == '-'
	if neg || text[0] == '+' {
		text = text[1:]
	}
	for _, c := range text {
		if exp = exp*10 + int64(c-'0'); exp > maxExp {
			exp = maxExp
			break
		}
	}
	if neg {
		return -exp
	}
	return exp
}

func (n number) digits() int { return len(n.whole) + len(n.frac) }

func (n number) digit(i int) byte {
	switch {
	case i < len(n.whole):
		return n.whole[i]
	case i < n.digits():
		return n.frac[i-len(n.whole)]
	}
	return '0'
}

// integer reports whether n has no fraction.
func (n number) integer() bool { return n.exp >= int64(n.digits()) || n.digits() == 0 }

func (n number) sign() int {
	switch {
	case n.digits() == 0:
		return 0
	case n.neg:
		return -1
	}
	return 1
}

// compare returns -1, 0 or 1 as n is less than, equal to or greater than m.
func (n number) compare(m number) int {
	sign := n.sign()
	if other := m.sign(); sign != other || sign == 0 {
		return cmp.Compare(sign, other)
	}
	if c := cmp.Compare(n.exp, m.exp); c != 0 {
		return c * sign
	}
	for i := range max(n.digits(), m.digits()) {
		if c := cmp.Compare(n.digit(i), m.digit(i)); c != 0 {
			return c * sign
		}
	}
	return 0
}

// isInteger reports whether the JSON number text has no fraction.
func isInteger(text []byte) bool {
	for _, c := range text {
		if c == '.' || c == 'e' || c == 'E' {
			return parseNumber(text).integer()
		}
	}
	return true
}

// multipleOf reports whether n is a multiple of m, which is not zero and has at most 18 digits.
// It takes time in proportion to the digits of n.
func (n number) multipleOf(m number) bool {
	var modulus uint64
	for i := range m.digits() {
		modulus = modulus*10 + uint64(m.digit(i)-'0')
	}
	// The values are integers without a final zero, times a power of ten. If that of n is smaller,
	// n lacks a factor of ten that m has.
	shift := n.exp - int64(n.digits()) - (m.exp - int64(m.digits()))
	if n.digits() == 0 || modulus == 0 {
		return n.digits() == 0
	}
	if shift < 0 {
		return false
	}
	times := func(a, b uint64) uint64 {
		high, low := bits.Mul64(a, b)
		return bits.Rem64(high, low, modulus)
	}
	var rest uint64
	for i := range n.digits() {
		rest = (times(rest, 10) + uint64(n.digit(i)-'0')) % modulus
	}
	for power := uint64(10) % modulus; shift > 0; shift >>= 1 {
		if shift&1 != 0 {
			rest = times(rest, power)
		}
		power = times(power, power)
	}
	return rest == 0
}

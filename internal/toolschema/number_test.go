package toolschema

import (
	"encoding/json"
	"math/big"
	"testing"
)

// Equal numbers have equal keys, and only those, however they are written. A key is not much longer
// than the text of its number: a fraction with all its digits would be.
func TestNumbers(t *testing.T) {
	var numbers []json.Number
	for _, sign := range []string{"", "-"} {
		for _, digits := range []string{"0", "1", "10", "100", "7", "0.0", "0.1", "0.10", "0.01", "1.0", "1.50", "15", "12300.00450"} {
			for _, exponent := range []string{"", "e0", "e1", "E+2", "e-1", "e-02", "e3", "e-399", "e399"} {
				numbers = append(numbers, json.Number(sign+digits+exponent))
			}
		}
	}
	seen := map[string]*big.Rat{} // by key
	for _, n := range numbers {
		value, _ := new(big.Rat).SetString(string(n))
		k := key(n)
		if len(k) > len(n)+len("n-e-1000;") {
			t.Errorf("%s: the key is %q", n, k)
		}
		if integer(n) != value.IsInt() {
			t.Errorf("%s: integer is %v", n, integer(n))
		}
		if same := seen[k]; same != nil && same.Cmp(value) != 0 {
			t.Errorf("%s has the key of a number that differs", n)
		}
		seen[k] = value
	}
	for k, value := range seen {
		for other, same := range seen {
			if k != other && value.Cmp(same) == 0 {
				t.Errorf("%q and %q are keys of one number", k, other)
			}
		}
	}
}

package boundary

import (
	"errors"
	"fmt"
)

// The numbers in configurations follow the same rules everywhere: zero is the default, None is no
// limit where a field admits that, and any other negative number is an error that names the field.

// None is the value of a field that sets no limit. After [OrNone] has seen it, the field is 0.
const None = -1

// Number is the type of a limit.
type Number interface{ ~int | ~int64 | ~float64 }

// Faults collects the faults of the fields of a configuration. The zero value, with a Package, is
// ready to use.
type Faults struct {
	Package string // the first word of errors
	errs    []error
}

// Default sets a field that is zero, or at fault, to def.
func Default[T Number](c *Faults, field string, v *T, def T) {
	if !(*v >= 0) { // also not a number
		c.fail(field, float64(*v), *v)
		*v = 0
	}
	if *v == 0 {
		*v = def
	}
}

// OrNone is like Default, but the field may also be None. Then it becomes 0.
func OrNone[T Number](c *Faults, field string, v *T, def T) {
	if *v == None {
		*v = 0
		return
	}
	Default(c, field, v, def)
}

func (c *Faults) fail(field string, number float64, v any) {
	word := "negative"
	if number != number {
		word = "invalid"
	}
	c.Add(fmt.Errorf("%s: %s %s (%v)", c.Package, word, field, v))
}

// Add adds another fault, unless it is nil.
func (c *Faults) Add(err error) {
	if err != nil {
		c.errs = append(c.errs, err)
	}
}

// All returns the faults, in the order in which they were found.
func (c *Faults) All() []error { return c.errs }

// Err returns all faults as one error, or nil if there are none.
func (c *Faults) Err() error { return errors.Join(c.errs...) }

//go:build !unix

package skills_test

import "errors"

func makePipe(string) error { return errors.ErrUnsupported }

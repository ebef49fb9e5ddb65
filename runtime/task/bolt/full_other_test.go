//go:build !unix

package bolt_test

import "errors"

func limitFiles(string) error { return errors.ErrUnsupported }

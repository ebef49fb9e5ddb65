//go:build !(linux && amd64)

package natstest

import "errors"

func canSetClock() bool { return false }

func useClock(string) error { return errors.ErrUnsupported }

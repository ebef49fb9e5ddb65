package streamable

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
)

func TestExchangesLimitBothKindsSeparately(t *testing.T) {
	x := exchanges{max: 1, usage: &usage{maxRequests: 9}, quiet: make(chan struct{})}
	for _, brief := range []bool{false, true} {
		if err := x.enter(brief); err != nil {
			t.Errorf("brief %v: %v", brief, err)
		}
		if err := x.enter(brief); err != errTooManyStreams {
			t.Errorf("brief %v: second: got %v, want %v", brief, err, errTooManyStreams)
		}
	}
	x.leave(true)
	if err := x.enter(true); err != nil {
		t.Errorf("after leave: %v", err)
	}
}

func TestExchangesAreQuietWhenTheLastOneLeaves(t *testing.T) {
	x := exchanges{max: 2, usage: &usage{maxRequests: 9}, quiet: make(chan struct{})}
	x.enter(false)
	x.enter(true)
	x.end()
	if err := x.enter(false); err != transport.ErrClosed {
		t.Errorf("after end: got %v, want %v", err, transport.ErrClosed)
	}
	x.leave(true)
	select {
	case <-x.quiet:
		t.Error("quiet while an exchange is served")
	default:
	}
	x.leave(false)
	<-x.quiet
}

func TestExchangesRecordTheirUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := exchanges{max: 1, usage: &usage{maxRequests: 9}, quiet: make(chan struct{}), used: time.Now()}
		time.Sleep(time.Minute)
		if !x.isUsed() {
			t.Error("a new session is not in use")
		}
		time.Sleep(time.Minute)
		if x.isUsed() {
			t.Error("in use without an exchange")
		}
		x.enter(false)
		if _, idle := x.idleSince(); idle || !x.isUsed() {
			t.Error("idle during an exchange")
		}
		time.Sleep(time.Minute)
		x.leave(false)
		end := time.Now()
		time.Sleep(time.Minute)
		if since, idle := x.idleSince(); !idle || !since.Equal(end) || !x.isUsed() {
			t.Errorf("idle %v since %v, want since %v", idle, since, end)
		}
	})
}

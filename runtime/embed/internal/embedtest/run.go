package embedtest

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/internal/sdklimits"
)

// Main runs the tests of a package. If Run has started the process to serve one of the subjects
// over standard input and output, Main does that instead. Call it in TestMain. It does not return.
func Main(m *testing.M, subjects ...Subject) {
	text, ok := os.LookupEnv(childEnv)
	if !ok {
		os.Exit(m.Run())
	}
	if err := serveChild([]byte(text), subjects); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Timeouts of cases. That of cases with a limit is short, because these cases must fail.
const (
	caseTimeout    = 2 * time.Minute
	limitedTimeout = 2 * time.Second
)

// testCase is a case of the suite.
type testCase struct {
	name       string
	era        string // "session", "modern", or "" for both
	transports string // space-separated; "" for all
	long       bool   // does not run with the flag -short
	setup      setup
	run        func(c *check)
}

// cases are the cases of the suite.
var cases = slices.Concat(callCases, outcomeCases, taskCases, inputCases, accessCases, notificationCases, restartCases, messageCases)

// Run runs all cases, or with the flag -short those that are not long. TestMain of the package must
// call [Main].
func Run(t *testing.T, s Subject) {
	for _, transport := range []string{"memory", "stdio", "http"} {
		for _, era := range []string{"session", "modern"} {
			t.Run(transport+" "+era, func(t *testing.T) {
				t.Parallel()
				for _, tt := range cases {
					if tt.era != "" && tt.era != era || tt.transports != "" && !slices.Contains(strings.Fields(tt.transports), transport) || tt.long && testing.Short() {
						continue
					}
					t.Run(tt.name, func(t *testing.T) {
						t.Parallel()
						if transport != "memory" {
							runCase(t, s, tt, transport, era)
							return
						}
						synctest.Test(t, func(t *testing.T) { runCase(t, s, tt, transport, era) })
					})
				}
			})
		}
	}
}

func runCase(t *testing.T, s Subject, tt testCase, transport, era string) {
	limit := limitOf(s.Name, tt.name, transport, era)
	switch {
	case limit == nil:
		runOnce(t, s, tt, transport, era, nil, caseTimeout)
	case limit.Rare:
		for n := range 5 {
			// Later runs have more time, in case the machine is slow.
			if !runOnce(t, s, tt, transport, era, limit, limitedTimeout<<n) {
				return
			}
		}
		t.Errorf("limit %s is not rare: the case fails each time", limit.ID)
	case !runOnce(t, s, tt, transport, era, limit, limitedTimeout):
		t.Errorf("limit %s of %s is lifted: the case passes", limit.ID, s.Name)
	}
}

// runOnce runs a case, which fails after timeout. With a limit, it reports whether the case has
// failed.
func runOnce(t *testing.T, s Subject, tt testCase, transport, era string, limit *sdklimits.Limit, timeout time.Duration) bool {
	c := &check{T: t, era: era, limit: limit, server: &server{subject: s, transport: transport, setup: tt.setup}}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	c.ctx = ctx
	if transport == "stdio" {
		c.dir = t.TempDir()
	}
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.board != nil {
			c.board.close()
		}
		if err := c.stop(); err != nil {
			c.Errorf("stop the server: %v", err)
		}
		if text := c.stderr.String(); text != "" {
			t.Logf("standard error of the server:\n%s", text)
		}
	})
	if limit == nil {
		tt.run(c)
		return false
	}
	done := make(chan struct{})
	go func() { // ends with the case
		defer close(done)
		tt.run(c)
	}()
	<-done
	return c.limited.Load()
}

// limitOf returns the limit of a case, or nil.
func limitOf(sdk, name, transport, era string) *sdklimits.Limit {
	n := slices.IndexFunc(sdklimits.All, func(l sdklimits.Limit) bool {
		return l.SDK == sdk && slices.Contains(l.Cases, name) && (l.Transport == "" || l.Transport == transport) && (l.Era == "" || l.Era == era)
	})
	if n < 0 {
		return nil
	}
	return &sdklimits.All[n]
}

// check is one run of a case. If the case has a limit, errors do not fail the test.
type check struct {
	*testing.T
	*server
	ctx     context.Context
	era     string
	limit   *sdklimits.Limit
	limited atomic.Bool // the case has failed, and has a limit
}

// Errorf reports an error.
func (c *check) Errorf(format string, values ...any) {
	c.T.Helper()
	if c.limit != nil {
		c.limited.Store(true)
		c.Logf("limit %s: %s", c.limit.ID, fmt.Sprintf(format, values...))
		return
	}
	c.T.Errorf(format, values...)
}

// Fatalf reports an error and ends the goroutine.
func (c *check) Fatalf(format string, values ...any) {
	c.T.Helper()
	c.Errorf(format, values...)
	if c.limit != nil {
		runtime.Goexit()
	}
	c.FailNow()
}

// Error is Errorf for one value.
func (c *check) Error(value any) {
	c.T.Helper()
	c.Errorf("%v", value)
}

// Fatal is Fatalf for one value.
func (c *check) Fatal(value any) {
	c.T.Helper()
	c.Fatalf("%v", value)
}

// equal reports an error unless got and want have the same text.
func (c *check) equal(what string, got, want any) {
	c.T.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		c.Errorf("%s: got %s, want %s", what, shorten(g), shorten(w))
	}
}

// shorten shortens a long text.
func shorten(text string) string {
	if len(text) > 2000 {
		return text[:2000] + "…"
	}
	return text
}

package rerun_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

func ask(params string) *rerun.Request {
	return &rerun.Request{Method: "elicitation/create", Params: json.RawMessage(params), Prepare: func() (any, string, error) {
		return nil, "elicitation/create " + params, nil
	}}
}

// required reports whether an error ends the run.
func required(err error) bool {
	_, ok := errors.AsType[*rerun.InputRequiredError](err)
	return ok
}

// rounds runs a handler in rounds. Results of steps are the numbers of their runs.
type rounds struct {
	t       *testing.T
	rounds  int
	runs    int // of steps
	entries []rerun.Entry
	open    []rerun.Open
	left    []rerun.Asked
}

func (r *rounds) step(ctx context.Context, l *rerun.Log, name string) (string, error) {
	text, err := l.Step(ctx, name, func(context.Context) (json.RawMessage, error) {
		r.runs++
		return json.RawMessage(strconv.Itoa(r.runs)), nil
	})
	return string(text), err
}

// round runs the handler once, with a response to each open input request but those that respond
// leaves out. It returns the error of the run.
func (r *rounds) round(respond func(o *rerun.Open) string, f func(l *rerun.Log)) (err error) {
	r.t.Helper()
	r.rounds++
	entries, pending := r.entries, r.left
	for i := range r.open {
		if text := respond(&r.open[i]); text != "" {
			entries = append(entries, r.open[i].Entry(json.RawMessage(text)))
		} else {
			pending = append(pending, r.open[i].Asked)
		}
	}
	l := rerun.New(r.t.Context(), rerun.Options{Package: "test", ID: "call", Rounds: true, Earlier: entries, Pending: pending})
	f(l)
	r.entries, r.open, err = l.End()
	r.left = l.Left()
	return err
}

func all(*rerun.Open) string  { return `"answer"` }
func none(*rerun.Open) string { return "" }

func TestEqualKeysDifferByOccurrence(t *testing.T) {
	r := &rounds{t: t}
	handler := func(l *rerun.Log) {
		for want := range 3 {
			if got, err := r.step(t.Context(), l, "s"); err != nil || got != strconv.Itoa(want+1) {
				t.Errorf("step %d: got %s, %v", want, got, err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		defer cancel()
		if r.rounds == 3 { // what is recorded is returned nevertheless
			cancel()
		}
		for i, params := range []string{`{"a":1,"b":"é","_meta":{"x":1}}`, `{"_meta":{"y":{"_meta":2}},"a":1,"b":"é"}`} {
			got, err := l.Ask(ended, ask(params))
			if err == nil && string(got) != strconv.Itoa(i+1) || err != nil && !required(err) {
				t.Errorf("request %d: got %s, %v", i, got, err)
			}
		}
	}
	count := func(o *rerun.Open) string { return strconv.Itoa(o.Occurrence) }
	for range 3 {
		if err := r.round(count, handler); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.entries) != 5 || len(r.open) != 0 || r.runs != 3 {
		t.Errorf("entries %v, open %v, %d runs", r.entries, r.open, r.runs)
	}
}

// After the first open request, other branches add requests to the round, and begin nothing else. A
// branch in which something else could not begin, or was interrupted, adds none: the next run makes
// no such request if that succeeds.
func TestNothingBeginsAfterFirstOpenRequest(t *testing.T) {
	r := &rounds{t: t}
	err := r.round(all, func(l *rerun.Log) {
		asked := make(chan struct{})
		err := l.RunAll(t.Context(), []func(ctx context.Context) error{
			func(ctx context.Context) error {
				defer close(asked)
				_, err := l.Ask(ctx, ask(`1`))
				return err
			},
			func(ctx context.Context) error {
				<-asked
				_, err := l.Ask(ctx, ask(`2`))
				if _, again := l.Ask(ctx, ask(`3`)); !required(again) {
					t.Errorf("request of the same branch: got %v", again)
				}
				return err
			},
			func(ctx context.Context) error {
				<-asked
				if _, err := r.step(ctx, l, "s"); !required(err) {
					t.Errorf("step: got %v", err)
				}
				if err := l.Sleep(ctx, "s", time.Now); !required(err) {
					t.Errorf("sleep: got %v", err)
				}
				_, err := l.Ask(ctx, ask(`instead of the step`))
				return err
			},
			func(ctx context.Context) error {
				if err := l.Sleep(ctx, "long", func() time.Time { return time.Now().Add(time.Hour) }); !required(err) {
					t.Errorf("sleep that was interrupted: got %v", err)
				}
				_, err := l.Ask(ctx, ask(`instead of the sleep`))
				return err
			},
		})
		if !required(err) {
			t.Errorf("got %v", err)
		}
		if _, err := l.Ask(t.Context(), ask(`4`)); !required(err) {
			t.Errorf("request after the branches: got %v", err)
		}
		if err := l.Branch(t.Context(), "b", func(ctx context.Context) error {
			_, err := l.Ask(ctx, ask(`5`))
			return err
		}); !required(err) {
			t.Errorf("request of a new branch: got %v", err)
		}
	})
	if err != nil || r.runs != 0 || len(r.open) != 2 || r.open[0].Branch != "1.1" || r.open[1].Branch != "1.2" {
		t.Errorf("%v, %d runs, open %+v", err, r.runs, r.open)
	}
}

func TestEndWaitsForRunningSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rerun.New(t.Context(), rerun.Options{Package: "test", Rounds: true})
		begun, release, ended := make(chan struct{}), make(chan struct{}), make(chan []rerun.Entry)
		go l.Branch(t.Context(), "b", func(ctx context.Context) error {
			_, err := l.Step(ctx, "s", func(context.Context) (json.RawMessage, error) {
				close(begun)
				<-release
				return json.RawMessage(`1`), nil
			})
			return err
		})
		<-begun
		l.Ask(t.Context(), ask(`{}`))
		go func() {
			entries, _, err := l.End()
			if err != nil {
				t.Error(err)
			}
			ended <- entries
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("End does not wait")
		default:
		}
		close(release)
		if entries := <-ended; len(entries) != 1 {
			t.Errorf("entries %v", entries)
		}
	})
}

func TestRunThatAsksForOtherThingsIsNotDeterministic(t *testing.T) {
	r := &rounds{t: t}
	step := func(l *rerun.Log, name string) error { _, err := r.step(t.Context(), l, name); return err }
	request := func(l *rerun.Log, text string) error { _, err := l.Ask(t.Context(), ask(text)); return err }
	branch := func(l *rerun.Log, name string) error {
		return l.Branch(t.Context(), name, func(ctx context.Context) error { _, err := r.step(ctx, l, "in branch"); return err })
	}
	retried := func(l *rerun.Log, name string) error {
		_, err := rerun.Step(t.Context(), l, name, func(context.Context) (string, error) { r.runs++; return "", nil }, rerun.Retry{})
		return err
	}
	concurrent := func(l *rerun.Log, name string) error {
		f := func(ctx context.Context) error { _, err := r.step(ctx, l, name); return err }
		return l.RunAll(t.Context(), []func(ctx context.Context) error{f})
	}
	first := func(l *rerun.Log) error {
		return errors.Join(step(l, "s"), branch(l, "b"), request(l, `"one"`))
	}
	for _, tt := range []struct {
		name string
		run  func(l *rerun.Log) error
		want []string // parts of the error; nil for none
		runs int      // of steps in the second run
	}{
		{"the same", first, nil, 0},
		{"more", func(l *rerun.Log) error { return errors.Join(first(l), step(l, "t"), request(l, `"two"`)) }, nil, 1},
		{"less", func(l *rerun.Log) error { return step(l, "s") }, nil, 0},
		{"another order", func(l *rerun.Log) error { return errors.Join(branch(l, "b"), request(l, `"one"`), step(l, "s")) }, nil, 0},
		{"another request", func(l *rerun.Log) error {
			return errors.Join(step(l, "s"), branch(l, "b"), request(l, `"two"`))
		}, []string{`elicitation/create "one"`, `elicitation/create "two"`, "another Version"}, 0},
		{"another step", func(l *rerun.Log) error { return errors.Join(step(l, "z"), step(l, "s")) }, []string{`step "s"`, `step "z"`}, 0},
		{"another step, then a request", func(l *rerun.Log) error { return errors.Join(step(l, "z"), request(l, `"two"`)) }, []string{`step "s"`, `step "z"`}, 0},
		{"a step before", func(l *rerun.Log) error { return errors.Join(step(l, "z"), first(l)) }, []string{`step "s"`, `step "z"`}, 0},
		{"a step with attempts before", func(l *rerun.Log) error { return errors.Join(retried(l, "z"), first(l)) }, []string{`step "s"`, `step "z"`}, 0},
		{"a concurrent step before", func(l *rerun.Log) error { return errors.Join(concurrent(l, "z"), first(l)) }, []string{`step "s"`, `step "z"`}, 0},
		{"a concurrent step after", func(l *rerun.Log) error { return errors.Join(first(l), concurrent(l, "z")) }, nil, 1},
		{"one less and one more", func(l *rerun.Log) error {
			return errors.Join(step(l, "s"), request(l, `"one"`), branch(l, "c"))
		}, []string{`step "in branch" of branch "b"`, `step "in branch" of branch "c"`}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			*r = rounds{t: t}
			if err := r.round(all, func(l *rerun.Log) { first(l) }); err != nil {
				t.Fatal(err)
			}
			before := r.runs
			var inHandler error
			err := r.round(all, func(l *rerun.Log) { inHandler = tt.run(l) })
			mistake, invalid := errors.AsType[*rerun.NondeterminismError](err)
			if invalid != (tt.want != nil) || invalid != rerun.Invalid(err) {
				t.Fatalf("got %v", err)
			}
			if got := r.runs - before; got != tt.runs {
				t.Errorf("%d runs of steps, want %d", got, tt.runs)
			}
			if invalid && tt.runs == 0 && !errors.Is(inHandler, error(mistake)) {
				t.Errorf("the handler gets %v", inHandler)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
		})
	}
}

// A request that has no response yet is not new.
func TestRequestWithoutResponseIsMadeAgain(t *testing.T) {
	r := &rounds{t: t}
	handler := func(l *rerun.Log) {
		l.RunAll(t.Context(), []func(ctx context.Context) error{
			func(ctx context.Context) error { _, err := l.Ask(ctx, ask(`"one"`)); return err },
			func(ctx context.Context) error { _, err := l.Ask(ctx, ask(`"two"`)); return err },
		})
	}
	if err := r.round(all, handler); err != nil {
		t.Fatal(err)
	}
	one := func(o *rerun.Open) string {
		if o.Branch == "1.1" {
			return `1`
		}
		return ""
	}
	if err := r.round(one, handler); err != nil || len(r.entries) != 1 || len(r.open) != 1 || r.open[0].Branch != "1.2" {
		t.Errorf("%v, entries %v, open %v", err, r.entries, r.open)
	}
}

func TestTransientResponseIsForOneRun(t *testing.T) {
	r := &rounds{t: t}
	transient := ask(`"page"`)
	transient.Transient = true
	again := func(l *rerun.Log) {
		if _, err := l.Ask(t.Context(), transient); !required(err) {
			t.Errorf("got %v", err)
		}
	}
	if err := r.round(all, again); err != nil {
		t.Error(err)
	}
	for range 3 {
		if err := r.round(all, func(l *rerun.Log) {
			if got, err := l.Ask(t.Context(), transient); err != nil || string(got) != `"answer"` {
				t.Errorf("got %s, %v", got, err)
			}
			again(l)
		}); err != nil {
			t.Error(err)
		}
	}
	err := r.round(all, func(l *rerun.Log) { // the page is no longer needed
		if _, err := l.Ask(t.Context(), ask(`"other"`)); !required(err) {
			t.Error(err)
		}
	})
	if err != nil || len(r.entries) != 0 {
		t.Errorf("%v, entries %v", err, r.entries)
	}
}

// Whatever the function of a step returns is its outcome, even if the context of the step has
// ended.
func TestEveryOutcomeOfStepIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rounds{t: t}
		handler := func(l *rerun.Log) string {
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var got []error
			_, err := l.Step(short, "late failure", func(ctx context.Context) (json.RawMessage, error) {
				r.runs++
				<-ctx.Done()
				return nil, errors.New("no response in time")
			})
			got = append(got, err)
			_, err = r.step(short, l, "not begun")
			got = append(got, err, l.Sleep(short, "not begun", func() time.Time { r.runs++; return time.Now() }))
			_, err = l.Ask(short, ask(`"not begun"`))
			got = append(got, err)
			for _, err := range got[1:] {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			}
			_, err = l.Step(t.Context(), "broken", func(context.Context) (json.RawMessage, error) { return nil, errors.New("broken") })
			got = append(got, err)
			l.Ask(t.Context(), ask(`"next run"`))
			return fmt.Sprint(got)
		}
		var texts []string
		for range 3 {
			if err := r.round(none, func(l *rerun.Log) { texts = append(texts, handler(l)) }); err != nil {
				t.Fatal(err)
			}
		}
		want := `[no response in time test: step "not begun": context deadline exceeded test: sleep "not begun": context deadline exceeded test: elicitation/create: context deadline exceeded broken]`
		if diff := cmp.Diff([]string{want, want, want}, texts); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if r.runs != 1 {
			t.Errorf("%d functions ran", r.runs)
		}
	})
}

// A function that panics does not run again. Later runs panic at its step.
func TestPanicOfStepIsRecorded(t *testing.T) {
	r := &rounds{t: t}
	var got []string
	for range 3 {
		err := r.round(none, func(l *rerun.Log) {
			func() {
				defer func() { got = append(got, fmt.Sprint(recover())) }()
				_, err := l.Step(t.Context(), "charge", func(context.Context) (json.RawMessage, error) {
					r.runs++
					panic("boom")
				})
				t.Errorf("Step has returned %v", err)
			}()
			l.Ask(t.Context(), ask(`"next run"`))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	later := `test: step "charge": the function panicked in an earlier run`
	if diff := cmp.Diff([]string{"boom", later, later}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if r.runs != 1 {
		t.Errorf("the function ran %d times", r.runs)
	}
}

// In rounds, a request with a deadline has the response that comes with the next round, however
// late, and times out without one. Later runs get the same, and the deadline of the first run.
func TestDeadlineOfRequestInRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name  string
			waits []time.Duration // before each round
			last  func(*rerun.Open) string
			want  string
		}{
			{"in time", []time.Duration{0, time.Second}, all, `"answer" <nil>`},
			{"late", []time.Duration{0, time.Hour}, all, `"answer" <nil>`},
			{"never", []time.Duration{0, 40 * time.Second, 40 * time.Second}, none, ` test: elicitation/create: context deadline exceeded`},
		} {
			r := &rounds{t: t}
			var got string
			handler := func(l *rerun.Log) {
				short, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				answer, err := l.Ask(short, ask(`"q"`))
				if got = fmt.Sprint(string(answer), " ", err); !required(err) {
					l.Ask(t.Context(), ask(`"next"`))
				}
			}
			for i, wait := range tt.waits {
				time.Sleep(wait)
				respond := none
				if i == len(tt.waits)-1 {
					respond = tt.last
				}
				if err := r.round(respond, handler); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				if got != tt.want || len(r.left) > 0 || len(r.open) != 1 || !strings.Contains(r.open[0].Label, "next") {
					t.Errorf("%s: got %s, open %v", tt.name, got, r.open)
				}
				if err := r.round(none, handler); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A sleep that the handler gives up ends in the same way in later runs.
func TestSleepThatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rounds{t: t}
		var got []string
		handler := func(l *rerun.Log) {
			begin := time.Now()
			sleep := func(ctx context.Context, name string) {
				err := l.Sleep(ctx, name, func() time.Time { return time.Now().Add(time.Hour) })
				got = append(got, fmt.Sprint(time.Since(begin), " ", err))
			}
			short, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			sleep(short, "limited")
			cancelled, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			sleep(cancelled, "cancelled")
			l.Ask(t.Context(), ask(`"next run"`))
		}
		for range 2 {
			if err := r.round(none, handler); err != nil {
				t.Fatal(err)
			}
		}
		want := []string{
			`1m0s test: sleep "limited": context deadline exceeded`, `1m1s test: sleep "cancelled": context canceled`,
			`0s test: sleep "limited": context deadline exceeded`, `0s test: sleep "cancelled": context canceled`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A round has as many input requests as a client accepts. The others are made in later rounds.
func TestOpenRequestsAreLimited(t *testing.T) {
	r := &rounds{t: t}
	const branches = 2*taskrules.MaxOpenInput + 1
	for _, want := range []int{taskrules.MaxOpenInput, taskrules.MaxOpenInput, 1, 0} {
		err := r.round(all, func(l *rerun.Log) {
			f := make([]func(ctx context.Context) error, branches)
			for i := range f {
				f[i] = func(ctx context.Context) error { _, err := l.Ask(ctx, ask(`1`)); return err }
			}
			if err := l.RunAll(t.Context(), f); (err == nil) != (want == 0) || err != nil && !required(err) {
				t.Errorf("with %d open input requests: %v", want, err)
			}
		})
		if err != nil || len(r.open) != want {
			t.Fatalf("%d open input requests, want %d; %v", len(r.open), want, err)
		}
	}
}

func TestHandlerThatAsksInLoopFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, begin := &rounds{t: t}, time.Now()
		var last error
		err := r.round(all, func(l *rerun.Log) {
			for range 100 {
				_, last = l.Ask(t.Context(), ask(`1`))
			}
		})
		const want = "test: 64 input requests after one that was not answered yet: return its error, the handler is called again with the response"
		if err == nil || err.Error() != want || last == nil || !rerun.Invalid(err) {
			t.Errorf("got %v, and %v in the handler", err, last)
		}
		if time.Since(begin) > time.Second {
			t.Errorf("took %v", time.Since(begin))
		}
	})
}

// A state that was sealed before there were branches goes on: operations are known by their
// occurrence in the whole handler.
func TestStateWithoutBranchesGoesOn(t *testing.T) {
	r := &rounds{t: t}
	handler := func(l *rerun.Log) (got string) {
		l.RunAll(t.Context(), []func(ctx context.Context) error{
			func(ctx context.Context) error { text, _ := r.step(ctx, l, "a"); got += text; return nil },
			func(context.Context) error { return nil },
		})
		for _, name := range []string{"a", "b"} {
			text, err := r.step(t.Context(), l, name)
			got += fmt.Sprint(" ", text, " ", err)
		}
		l.Ask(t.Context(), ask(`"next run"`))
		return got
	}
	for i, name := range []string{"a", "a"} { // the order of entries is that of time
		r.entries = append(r.entries, rerun.Entry{ID: rerun.ID{Kind: rerun.KindStep, Key: name, Occurrence: 2 - i}, Result: json.RawMessage(strconv.Itoa(12 - i))})
	}
	for range 2 {
		var got string
		if err := r.round(none, func(l *rerun.Log) { got = handler(l) }); err != nil {
			t.Fatal(err)
		}
		if got != "11 12 <nil> 1 <nil>" {
			t.Errorf("got %s", got)
		}
	}
	if last := r.entries[len(r.entries)-1]; last.Position != 0 || last.Branch != "" {
		t.Errorf("the new entry is %+v", last)
	}
}

// A goroutine that uses the context of its handler instead of that of its branch, and the other way
// around, overlaps with other operations.
func TestNamesOfBranches(t *testing.T) {
	r := &rounds{t: t}
	if err := r.round(none, func(l *rerun.Log) {
		ctx := t.Context()
		var in func(names ...string) func(ctx context.Context) error
		in = func(names ...string) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				if len(names) > 0 {
					return l.Branch(ctx, names[0], in(names[1:]...))
				}
				_, err := r.step(ctx, l, "s")
				return err
			}
		}
		for _, f := range []func(ctx context.Context) error{in("a", "b"), in("a/b"), in(`"`), in()} {
			if err := f(ctx); err != nil {
				t.Error(err)
			}
		}
		for range 2 {
			if err := l.RunAll(ctx, []func(ctx context.Context) error{in("c"), in()}); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, e := range r.entries {
		seen[e.Branch] = true
	}
	for _, want := range []string{`"a"/"b"`, `"a/b"`, `"\""`, "", `1.1/"c"`, "1.2", `2.1/"c"`, "2.2"} {
		if !seen[want] {
			t.Errorf("no entry of branch %s: %v", want, r.entries)
		}
	}
}

// Whether a branch begins before another operation has ended the round is up to chance. A wait that
// is refused in the second round has a response from the first one.
func TestRefusedWaitKeepsItsResponses(t *testing.T) {
	r := &rounds{t: t}
	wait := func(l *rerun.Log) (err error) {
		l.Branch(t.Context(), "b", func(ctx context.Context) error {
			_, err = rerun.Select(ctx, l, "wait", rerun.OnAnswer(func(ctx context.Context) (string, error) {
				text, err := l.Ask(ctx, ask(`"one"`))
				return string(text), err
			}))
			return err
		})
		return err
	}
	request := func(l *rerun.Log) error { _, err := l.Ask(t.Context(), ask(`"two"`)); return err }
	for i, row := range []struct {
		handler func(l *rerun.Log) (waited, asked error)
		waits   bool // for a response
	}{
		{func(l *rerun.Log) (error, error) { return wait(l), request(l) }, true},
		{func(l *rerun.Log) (error, error) { asked := request(l); return wait(l), asked }, true},
		{func(l *rerun.Log) (error, error) { asked := request(l); return wait(l), asked }, false},
	} {
		err := r.round(all, func(l *rerun.Log) {
			if waited, asked := row.handler(l); required(waited) != row.waits || required(asked) != row.waits {
				t.Errorf("round %d: got %v and %v", i+1, waited, asked)
			}
		})
		if err != nil {
			t.Fatalf("round %d: %v", i+1, err)
		}
	}
}

// The state does not hold the input requests that a wait has given up.
func TestRequestsOfEndedWaitsAreForgotten(t *testing.T) {
	r := &rounds{t: t}
	first := func(o *rerun.Open) string {
		if strings.Contains(o.Label, "first") {
			return `"answer"`
		}
		return ""
	}
	for range 4 {
		err := r.round(first, func(l *rerun.Log) {
			var err error
			for i := 0; i < 4 && err == nil; i++ {
				request := func(name string) rerun.Case {
					return rerun.OnAnswer(func(ctx context.Context) (string, error) {
						text, err := l.Ask(ctx, ask(fmt.Sprintf(`"%s %d"`, name, i)))
						return string(text), err
					})
				}
				_, err = rerun.Select(t.Context(), l, "wait", request("first"), request("second"))
			}
			if !required(err) {
				t.Errorf("got %v", err)
			}
		})
		if err != nil || len(r.open) != 2 || len(r.left) > 0 {
			t.Fatalf("%v, open %v, left %v", err, r.open, r.left)
		}
	}
}

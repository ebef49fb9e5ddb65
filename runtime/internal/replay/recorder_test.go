package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpwire/mcpwire/runtime/internal/replay"
)

func ask(params string) *replay.Request {
	return &replay.Request{Method: "elicitation/create", Params: json.RawMessage(params), Prepare: func() (any, string, error) {
		return nil, "elicitation/create " + params, nil
	}}
}

// result returns the function of a step that counts its runs and returns a number.
func result(runs *int) func(int) (replay.Outcome, error) {
	return func(occurrence int) (replay.Outcome, error) {
		*runs++
		return replay.Outcome{Result: json.RawMessage(strconv.Itoa(occurrence))}, nil
	}
}

// next returns the Recorder of the next run, in which all input requests have responses.
func next(b *replay.Rounds, answer string) (*replay.Recorder, *replay.Rounds) {
	entries, open := b.Ended()
	for _, o := range open {
		entries = append(entries, o.Entry(json.RawMessage(answer)))
	}
	again := replay.NewRounds(entries)
	return replay.New(again, entries, nil), again
}

func TestEqualKeysDifferByOccurrence(t *testing.T) {
	b := replay.NewRounds(nil)
	r := replay.New(b, nil, nil)
	runs := 0
	for want := range 3 {
		out, err := r.Step(t.Context(), "s", result(&runs))
		if err != nil || string(out.Result) != strconv.Itoa(want+1) {
			t.Errorf("step %d: got %s, %v", want, out.Result, err)
		}
	}
	for range 2 {
		if _, err := r.Input(t.Context(), ask(`{"a":1,"b":"é","_meta":{"x":1}}`)); err != replay.ErrSuspended {
			t.Errorf("got %v, want ErrSuspended", err)
		}
	}
	if err := r.End(t.Context()); err != nil {
		t.Error(err)
	}
	entries, open := b.Ended()
	if len(entries) != 3 || len(open) != 2 || open[0].Name == open[1].Name || open[0].Occurrence != 1 || open[1].Occurrence != 2 {
		t.Errorf("entries %v, open %v", entries, open)
	}
	r, _ = next(b, `"answer"`)
	for want := range 3 {
		out, err := r.Step(t.Context(), "s", result(&runs))
		if err != nil || string(out.Result) != strconv.Itoa(want+1) {
			t.Errorf("step %d again: got %s, %v", want, out.Result, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, params := range []string{`{"_meta":{"y":{"_meta":2}},"a":1,"b":"é"}`, `{"a":1,"b":"é"}`} {
		got, err := r.Input(ended, ask(params))
		if err != nil || string(got) != `"answer"` {
			t.Errorf("got %s, %v", got, err)
		}
	}
	if err := r.End(t.Context()); err != nil || runs != 3 {
		t.Errorf("%v, %d runs", err, runs)
	}
}

func TestNoStepBeginsAfterFirstOpenRequest(t *testing.T) {
	r := replay.New(replay.NewRounds(nil), nil, nil)
	runs := 0
	r.Input(t.Context(), ask(`{}`))
	if _, err := r.Step(t.Context(), "s", result(&runs)); err != replay.ErrSuspended || runs != 0 {
		t.Errorf("got %v, %d runs", err, runs)
	}
}

func TestEndWaitsForRunningSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := replay.NewRounds(nil)
		r := replay.New(b, nil, nil)
		begun, release := make(chan struct{}), make(chan struct{})
		go r.Step(t.Context(), "s", func(int) (replay.Outcome, error) {
			close(begun)
			<-release
			return replay.Outcome{Result: json.RawMessage(`1`)}, nil
		})
		<-begun
		r.Input(t.Context(), ask(`{}`))
		ended := make(chan error)
		go func() { ended <- r.End(t.Context()) }()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("End does not wait")
		default:
		}
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if entries, _ := b.Ended(); len(entries) != 1 {
			t.Errorf("entries %v", entries)
		}
	})
}

func TestStepsOfOneNameAtTheSameTimeFail(t *testing.T) {
	r := replay.New(nil, nil, nil)
	_, err := r.Step(t.Context(), "s", func(int) (replay.Outcome, error) {
		_, err := r.Step(t.Context(), "s", nil)
		return replay.Outcome{}, err
	})
	var duplicate *replay.DuplicateError
	if !errors.As(err, &duplicate) || duplicate.Name != "s" {
		t.Errorf("got %v", err)
	}
	if err := r.End(t.Context()); !errors.As(err, &duplicate) {
		t.Errorf("the run ends with %v", err)
	}
}

func TestRunThatAsksForOtherThingsIsNotDeterministic(t *testing.T) {
	runs := 0
	first := func(r *replay.Recorder) {
		r.Step(t.Context(), "s", result(&runs))
		r.Input(t.Context(), ask(`"one"`))
	}
	for _, tt := range []struct {
		name string
		run  func(r *replay.Recorder)
		want []string // parts of the error; nil for none
	}{
		{"the same", first, nil},
		{"more", func(r *replay.Recorder) { first(r); r.Input(t.Context(), ask(`"two"`)) }, nil},
		{"less", func(r *replay.Recorder) { r.Step(t.Context(), "s", result(&runs)) }, nil},
		{"another order", func(r *replay.Recorder) {
			r.Input(t.Context(), ask(`"one"`))
			r.Step(t.Context(), "s", result(&runs))
		}, nil},
		{"another request", func(r *replay.Recorder) {
			r.Step(t.Context(), "s", result(&runs))
			r.Input(t.Context(), ask(`"two"`))
		}, []string{`elicitation/create "one" (occurrence 1)`, `elicitation/create "two" (occurrence 1)`}},
		{"another step", func(r *replay.Recorder) {
			r.Step(t.Context(), "z", result(&runs))
			r.Input(t.Context(), ask(`"one"`))
		}, []string{`step "s" (occurrence 1)`, `step "z" (occurrence 1)`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := replay.NewRounds(nil)
			r := replay.New(b, nil, nil)
			first(r)
			if err := r.End(t.Context()); err != nil {
				t.Fatal(err)
			}
			r, _ = next(b, `1`)
			tt.run(r)
			err := r.End(t.Context())
			var mistake *replay.NondeterminismError
			if errors.As(err, &mistake) != (tt.want != nil) {
				t.Fatalf("got %v", err)
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
	b := replay.NewRounds(nil)
	r := replay.New(b, nil, nil)
	r.Input(t.Context(), ask(`"one"`))
	r.Input(t.Context(), ask(`"two"`))
	if err := r.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, open := b.Ended()
	entries := []replay.Entry{open[0].Entry(json.RawMessage(`1`))}
	r = replay.New(replay.NewRounds(entries), entries, []replay.Asked{open[1].Asked})
	if _, err := r.Input(t.Context(), ask(`"two"`)); err != replay.ErrSuspended {
		t.Error(err)
	}
	if err := r.End(t.Context()); err != nil { // the handler ended the round before it made the other one
		t.Error(err)
	}
}

func TestTransientResponseIsForOneRun(t *testing.T) {
	transient := func() *replay.Request {
		q := ask(`"page"`)
		q.Transient = true
		return q
	}
	b := replay.NewRounds(nil)
	r := replay.New(b, nil, nil)
	r.Input(t.Context(), transient())
	for range 3 {
		r, b = next(b, `"accept"`)
		if got, err := r.Input(t.Context(), transient()); err != nil || string(got) != `"accept"` {
			t.Errorf("got %s, %v", got, err)
		}
		if _, err := r.Input(t.Context(), transient()); err != replay.ErrSuspended {
			t.Errorf("got %v, want ErrSuspended", err)
		}
		if err := r.End(t.Context()); err != nil {
			t.Error(err)
		}
	}
	r, b = next(b, `"accept"`)
	if _, err := r.Input(t.Context(), ask(`"other"`)); err != replay.ErrSuspended {
		t.Error(err)
	}
	if err := r.End(t.Context()); err != nil { // the page is no longer needed
		t.Error(err)
	}
	if entries, _ := b.Ended(); len(entries) != 0 {
		t.Errorf("entries %v", entries)
	}
}

func TestFailureThatIsNotRecordedIsReturned(t *testing.T) {
	b := replay.NewRounds(nil)
	r := replay.New(b, nil, nil)
	broken := errors.New("broken")
	if _, err := r.Step(t.Context(), "s", func(int) (replay.Outcome, error) { return replay.Outcome{}, broken }); err != broken {
		t.Errorf("got %v", err)
	}
	if _, err := r.Step(t.Context(), "t", func(int) (replay.Outcome, error) { return replay.Outcome{Failed: true}, nil }); err != nil {
		t.Error(err)
	}
	if entries, _ := b.Ended(); len(entries) != 1 || !entries[0].Failed {
		t.Errorf("entries %v", entries)
	}
	r.End(t.Context())
	if _, err := r.Step(t.Context(), "u", nil); err != replay.ErrEnded {
		t.Errorf("after the end: %v", err)
	}
	if _, err := r.Input(t.Context(), ask(`1`)); err != replay.ErrEnded {
		t.Errorf("after the end: %v", err)
	}
}

// journal is a Backend that waits for responses and keeps all results. It fails when it is full.
type journal struct {
	entries []replay.Entry
	room    int
	asked   int
}

var errFull = errors.New("full")

func (j *journal) Input(_ context.Context, a *replay.Asked, _ any) (json.RawMessage, error) {
	j.asked++
	return a.Params, nil
}

func (j *journal) Record(_ context.Context, e replay.Entry) error {
	if len(j.entries) >= j.room {
		return errFull
	}
	j.entries = append(j.entries, e)
	return nil
}

// A Backend may wait for responses. A handler never sees a result that was not recorded.
func TestBackendThatWaitsForResponses(t *testing.T) {
	j, runs := new(journal), 0
	for ; j.room < 40; j.room++ { // the process dies after each result
		r := replay.New(j, j.entries, nil)
		var err error
		seen := 0
		for i := 0; i < 20 && err == nil; i++ {
			if _, err = r.Step(t.Context(), "s", result(&runs)); err == nil {
				seen++
				_, err = r.Input(t.Context(), ask(strconv.Itoa(i)))
			}
			if err == nil {
				seen++
			}
		}
		if err != errFull || seen != j.room {
			t.Errorf("with room for %d results: %v, %d results", j.room, err, seen)
		}
		if err := r.End(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if runs != 40 || j.asked != 39 { // each twice but the last: once when its result is not recorded
		t.Errorf("%d runs of steps, %d input requests", runs, j.asked)
	}
}

// slowBackend records nothing, and does so slowly.
type slowBackend struct{ begun, release chan struct{} }

func (b slowBackend) Input(context.Context, *replay.Asked, any) (json.RawMessage, error) {
	return nil, replay.ErrSuspended
}

func (b slowBackend) Record(context.Context, replay.Entry) error {
	b.begun <- struct{}{}
	<-b.release
	return nil
}

// When End has returned, the next run reads what this one has recorded.
func TestNothingIsRecordedAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := slowBackend{make(chan struct{}, 2), make(chan struct{})}
		r := replay.New(b, nil, nil)
		step, late, ended := make(chan struct{}), make(chan error, 1), make(chan error, 1)
		runs := 0
		go r.Step(t.Context(), "recording", result(&runs))
		<-b.begun
		go func() {
			_, err := r.Step(t.Context(), "running", func(int) (replay.Outcome, error) { <-step; return replay.Outcome{}, nil })
			late <- err
		}()
		synctest.Wait()
		go func() { ended <- r.End(t.Context()) }()
		synctest.Wait()
		if len(ended) > 0 {
			t.Error("End has not waited for a result that is being recorded")
		}
		close(b.release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		close(step)
		if err := <-late; err != replay.ErrEnded || len(b.begun) > 0 {
			t.Errorf("got %v, %d results recorded", err, len(b.begun))
		}
	})
}

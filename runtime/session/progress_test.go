package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/internal/sessiontest"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/session"
)

// reporting returns a handler that calls f with its Reporter.
func reporting(f func(ctx context.Context, r *session.Reporter)) session.Handler {
	return func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
		if !req.IsNotification() {
			f(ctx, req.Internals(boundary.Caller{}).Progress())
		}
		return nil, nil
	}
}

// Proves PROG-01, PROG-03, PROG-05, PROG-06, PROG-07, PROG-08.
func TestReportsCarryTokenOfTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := open(t, &session.Options{Limits: session.Limits{ProgressInterval: -1}, Handler: reporting(func(_ context.Context, r *session.Reporter) {
			for _, report := range []session.Progress{
				{Value: 0.2, Total: new(1.0)}, {Value: 0.25, Message: "half of half"}, {Value: 3},
			} {
				if err := r.Report(report); err != nil {
					t.Error(err)
				}
			}
		})})
		for _, token := range []string{`"5"`, `5`, `0`, `""`, `12345678901234567890`} {
			p.talk(strings.ReplaceAll(`
				> {"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":TOKEN}}}
				< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":0.2,"total":1}}
				< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":0.25,"message":"half of half"}}
				< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":TOKEN,"progress":3}}
				< {"jsonrpc":"2.0","id":1,"result":{}}
			`, "TOKEN", token))
		}
		for _, params := range []string{`{}`, `{"_meta":{}}`, `{"_meta":{"progressToken":true}}`, `{"_meta":{"progressToken":null}}`, `{"_meta":7}`} {
			p.talk(`
				> {"jsonrpc":"2.0","id":1,"method":"x","params":` + params + `}
				< {"jsonrpc":"2.0","id":1,"result":{}}
			`)
		}
	})
}

// Proves PROG-04, PROG-07, PROG-08.
func TestReportsIncreaseAndEndWithTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept *session.Reporter
		_, p := open(t, &session.Options{Limits: session.Limits{ProgressInterval: -1}, Handler: reporting(func(_ context.Context, r *session.Reporter) {
			kept = r
			for _, c := range []struct {
				value float64
				want  error
			}{
				{5, nil}, {5, session.ErrNotIncreasing}, {4, session.ErrNotIncreasing}, {5.5, nil},
				{math.NaN(), session.ErrNotIncreasing}, {math.Inf(1), session.ErrNotIncreasing}, {6, nil},
			} {
				if err := r.Report(session.Progress{Value: c.value}); err != c.want {
					t.Errorf("%v: %v", c.value, err)
				}
			}
		})})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":"t"}}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":5}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":5.5}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":6}}
			< {"jsonrpc":"2.0","id":1,"result":{}}
		`)
		if err := kept.Report(session.Progress{Value: 7}); err != session.ErrProgressOver {
			t.Errorf("after the end: %v", err)
		}
		p.talk("")
	})
}

// Proves PROG-08, CANC-06.
func TestCancelledRequestReportsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := open(t, &session.Options{Handler: reporting(func(ctx context.Context, r *session.Reporter) {
			r.Report(session.Progress{Value: 1})
			r.Report(session.Progress{Value: 2}) // held
			<-ctx.Done()
			if err := r.Report(session.Progress{Value: 3}); err != session.ErrProgressOver {
				t.Errorf("got %v", err)
			}
		})})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":"t"}}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}
			> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
		`)
		time.Sleep(time.Minute)
		p.talk("")
	})
}

// Proves PROG-04, PROG-08, PROG-14.
func TestReportsAreCoalescedAndLastOneIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, p := open(t, &session.Options{Limits: session.Limits{ProgressInterval: 100 * time.Millisecond}, Handler: reporting(func(_ context.Context, r *session.Reporter) {
			for i := range 10_000 {
				if err := r.Report(session.Progress{Value: float64(i + 1)}); err != nil {
					t.Error(err)
				}
				time.Sleep(100 * time.Microsecond)
			}
			time.Sleep(time.Second) // the held report is sent in this time
			r.Report(session.Progress{Value: 20_000})
			r.Report(session.Progress{Value: 20_001})
			r.Report(session.Progress{Value: 20_002})
		})})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":"t"}}}`)
		time.Sleep(1500 * time.Millisecond)
		var before []float64
		for _, text := range p.take() {
			before = append(before, progressOf(t, text))
		}
		if len(before) < 9 || len(before) > 12 || before[0] != 1 || before[len(before)-1] != 10_000 || !slices.IsSorted(before) {
			t.Errorf("got the values %v", before)
		}
		time.Sleep(time.Second)
		p.talk(`
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":20000}}
			< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":20002}}
			< {"jsonrpc":"2.0","id":1,"result":{}}
		`)
	})
}

func progressOf(t *testing.T, text string) float64 {
	t.Helper()
	var m struct{ Params struct{ Progress float64 } }
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m.Params.Progress
}

// Proves PROG-11, PROG-12.
func TestReporterOutlivesItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *session.Reporter
		related := func(next session.Sender) session.Sender {
			return func(ctx context.Context, call *session.Call) (json.RawMessage, error) {
				call.SetMeta("task", codec.StringScalar("t1"))
				return next(ctx, call)
			}
		}
		_, p := open(t, &session.Options{
			Hooks: session.Hooks{Sending: []session.SendMiddleware{related}},
			Handler: func(ctx context.Context, req *session.Request) (codec.Encoder, error) {
				if !req.IsNotification() {
					r = req.Session.Internals(boundary.Caller{}).NewReporter(ctx, req.Internals(boundary.Caller{}).ProgressToken())
				}
				return nil, nil
			},
		})
		p.talk(`
			> {"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":"t"}}}
			< {"jsonrpc":"2.0","id":1,"result":{}}
		`)
		r.Report(session.Progress{Value: 1})
		p.talk(`< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1,"_meta":{"task":"t1"}}}`)
		r.Report(session.Progress{Value: 2})
		r.Report(session.Progress{Value: 3})
		r.Finish()
		p.talk(`< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":3,"_meta":{"task":"t1"}}}`)
		if err := r.Report(session.Progress{Value: 4}); err != session.ErrProgressOver {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Minute)
		p.talk("")
	})
}

func TestReporterWithoutTokenSendsNothing(t *testing.T) {
	var none *session.Reporter
	if err := none.Report(session.Progress{Value: 1}); err != nil {
		t.Error(err)
	}
	none.Finish()
	none.Stop()
}

// Proves PROG-01, PROG-02, PROG-09, PROG-13.
func TestProgressReachesItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		const n = 20
		var got [n][]session.Progress
		done := make(chan error, n)
		for i := range n {
			go func() {
				_, err := s.With(session.OnProgress(func(r session.Progress) { got[i] = append(got[i], r) })).Call(t.Context(), "roots/list", session.Raw(fmt.Sprintf(`{"n":%d,"_meta":{"k":1}}`, i)))
				done <- err
			}()
		}
		type request struct {
			ID     int
			Params struct {
				N    int
				Meta struct {
					ProgressToken any
					K             int
				} `json:"_meta"`
			}
		}
		tokens := map[any]bool{}
		for _, text := range p.take() {
			var r request
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			token, ok := r.Params.Meta.ProgressToken.(string)
			if !ok || tokens[token] || r.Params.Meta.K != 1 {
				t.Errorf("%s: no new token", text)
			}
			tokens[token] = true
			if i := r.Params.N; i > 0 { // the first call gets no progress
				for _, v := range []int{1, 3, 3, 2, 4} {
					p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%q,"progress":%d,"total":%d,"message":"m"}}`, token, v, i))
				}
			}
			p.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"unknown","progress":1}}`)
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, r.ID))
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%q,"progress":9}}`, token))
		}
		for range n {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		for i := range n {
			var want []session.Progress
			for _, v := range []float64{1, 3, 4} {
				if i > 0 {
					want = append(want, session.Progress{Value: v, Total: new(float64(i)), Message: "m"})
				}
			}
			if diff := cmp.Diff(want, got[i]); diff != "" {
				t.Errorf("request %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

// Proves PROG-10.
func TestTrackerOutlivesItsRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		tracker := s.Internals(boundary.Caller{}).NewTracker()
		if _, err := s.Internals(boundary.Caller{}).NewTrackerFor(tracker.Token()); err == nil || !strings.Contains(err.Error(), "token is in use") {
			t.Errorf("got %v", err)
		}
		go s.With(session.Track(tracker)).Call(t.Context(), "roots/list", nil) // ends with the answer
		p.take()
		report := func(v int) {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, tracker.Token(), v))
		}
		report(1)
		p.send(`{"jsonrpc":"2.0","id":1,"result":{"task":{}}}`)
		report(2)
		var got []float64
		read := make(chan bool)
		go func() { // ends with the tracker
			for r := range tracker.Updates(t.Context()) {
				got = append(got, r.Value)
			}
			close(read)
		}()
		synctest.Wait()
		report(3)
		tracker.Close()
		report(4)
		<-read
		if diff := cmp.Diff([]float64{1, 2, 3}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		again, err := s.Internals(boundary.Caller{}).NewTrackerFor(tracker.Token())
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		for range again.Updates(t.Context()) {
			t.Error("progress after the end of the session")
		}
	})
}

func TestTaskProgressIsTrackedWithoutToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		a, b, closed := s.Internals(boundary.Caller{}).NewTrackerOfTask("A"), s.Internals(boundary.Caller{}).NewTrackerOfTask("A"), s.Internals(boundary.Caller{}).NewTrackerOfTask("A")
		closed.Close()
		if _, err := s.With(session.Track(a)).Call(t.Context(), "roots/list", nil); err == nil {
			t.Error("a request with the tracker of a task succeeded")
		}
		for i, related := range []string{`{"taskId":"A"}`, `{"taskId":"B"}`, `{"taskId":"A"}`, `7`, `{"taskId":""}`} {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":%d,"_meta":{"io.modelcontextprotocol/related-task":%s}}}`, i, related))
		}
		synctest.Wait()
		s.Close()
		for name, test := range map[string]struct {
			tracker *session.Tracker
			want    []float64
		}{"first": {a, []float64{0, 2}}, "second": {b, []float64{0, 2}}, "closed tracker": {closed, nil}, "tracker of a closed session": {s.Internals(boundary.Caller{}).NewTrackerOfTask("A"), nil}} {
			var got []float64
			for r := range test.tracker.Updates(t.Context()) {
				got = append(got, r.Value)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	})
}

// Proves PROG-14.
func TestSlowReaderReceivesLastReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		tracker := s.Internals(boundary.Caller{}).NewTracker()
		for v := range 10_000 {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, tracker.Token(), v))
		}
		tracker.Close()
		n, last := 0, -1.0
		for r := range tracker.Updates(t.Context()) {
			if r.Value <= last {
				t.Errorf("%v comes after %v", r.Value, last)
			}
			n, last = n+1, r.Value
		}
		if n > 100 || last != 9999 {
			t.Errorf("got %d reports, the last one %v", n, last)
		}
	})
}

func TestUpdatesEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		tracker, err := s.Internals(boundary.Caller{}).NewTrackerFor(codec.StringScalar("token"))
		if err != nil {
			t.Fatal(err)
		}
		p.talk(`
			> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"token","progress":1}}
			> {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"token","progress":2}}
		`)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seen []float64
		for r := range tracker.Updates(ctx) {
			seen = append(seen, r.Value)
			cancel()
		}
		if !slices.Equal(seen, []float64{1}) {
			t.Errorf("seen: %v", seen)
		}
	})
}

func TestLongMessageFillsTrackerQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := open(t, nil)
		tracker := s.Internals(boundary.Caller{}).NewTracker()
		for v, size := range []int{10, 40_000, 40_000, 100_000, 10} {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%q}}`, tracker.Token(), v, strings.Repeat("m", size)))
		}
		tracker.Close()
		var got []float64
		for r := range tracker.Updates(t.Context()) {
			got = append(got, r.Value)
		}
		if diff := cmp.Diff([]float64{0, 4}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Proves PROG-15, PROG-08.
func TestClientReportsProgress(t *testing.T) {
	_, s := sessiontest.Pair(t, sessiontest.Side{
		Client: mcp.ClientCapabilities{Sampling: &mcp.ClientCapabilitiesSampling{}},
		Config: session.Options{Limits: session.Limits{ProgressInterval: -1}, Handler: reporting(func(ctx context.Context, _ *session.Reporter) {
			peer, ok := session.PeerFrom(ctx)
			for i := 1; ok && i <= 3; i++ {
				if err := peer.Report(session.Progress{Value: float64(i)}); err != nil {
					t.Error(err)
				}
			}
		})},
	}, sessiontest.Side{})
	for range 100 {
		var got []float64
		_, err := s.With(session.OnProgress(func(p session.Progress) { got = append(got, p.Value) })).Call(t.Context(), "sampling/createMessage", session.Raw(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]float64{1, 2, 3}, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

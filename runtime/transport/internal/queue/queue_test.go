package queue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/queue"
)

func message(text string) transport.Message { return transport.Message{Text: []byte(text)} }

func TestPushTakesPendingAndLaterMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(1000, time.Second)
		q.Put(t.Context(), message("1"))
		q.Put(t.Context(), message("2"))
		var got []string // calls of take do not overlap
		q.Push(func(m transport.Message, err error) {
			if err != nil {
				got = append(got, err.Error())
				return
			}
			got = append(got, string(m.Text))
		})
		q.Put(t.Context(), message("3"))
		if want := []string{"1", "2", "3"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		got = nil
		for i := range 100 {
			go func() {
				if err := q.Put(context.Background(), message(strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		slices.Sort(got)
		if got = slices.Compact(got); len(got) != 100 {
			t.Errorf("%d of 100 messages were taken", len(got))
		}
		got = nil
		q.Close(io.EOF)
		q.Close(transport.ErrClosed)
		q.Wait()
		if want := []string{"EOF"}; !slices.Equal(got, want) {
			t.Errorf("at the end: got %q, want %q", got, want)
		}
		if err := q.Put(t.Context(), message("late")); err != io.EOF {
			t.Errorf("after Close: got %v, want %v", err, io.EOF)
		}
	})
}

func TestPushAfterClose(t *testing.T) {
	q := queue.New(1000, time.Second)
	q.Put(t.Context(), message("1"))
	q.Close(io.EOF)
	var got []string
	q.Push(func(m transport.Message, err error) { got = append(got, fmt.Sprint(string(m.Text), err)) })
	if want := []string{"1<nil>", "EOF"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// While take runs, Put queues one message and returns. If the queue is full, Put waits for room,
// and fails after the stall timeout.
func TestPutWaitsWhileTakeRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(1, time.Second)
		release := make(chan struct{})
		var got []string
		q.Push(func(m transport.Message, err error) {
			<-release
			got = append(got, fmt.Sprint(string(m.Text), err))
		})
		put := make(chan error, 1)
		go func() { put <- q.Put(context.Background(), message("1")) }()
		synctest.Wait()
		if err := q.Put(t.Context(), message("2")); err != nil {
			t.Fatal(err)
		}
		if err := q.Put(t.Context(), message("3")); !errors.Is(err, transport.ErrStalled) {
			t.Errorf("got %v, want %v", err, transport.ErrStalled)
		}
		cause := errors.New("timeout of the test")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
		defer cancel()
		if err := q.Put(ctx, message("4")); err != cause {
			t.Errorf("got %v, want %v", err, cause)
		}
		if len(put) > 0 {
			t.Error("Put returned before take")
		}
		q.Close(io.EOF)
		close(release)
		if err := <-put; err != nil {
			t.Error(err)
		}
		q.Wait()
		if want := []string{"1<nil>", "2<nil>", "EOF"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestPushTakesEachMessageOnceInOrder(t *testing.T) {
	const writers, each = 8, 500
	q := queue.New(1<<10, time.Minute)
	var next [writers]int
	ended := false
	// The race detector reports overlapping calls.
	q.Push(func(m transport.Message, err error) {
		if err != nil {
			ended = true
			return
		}
		n, err := strconv.Atoi(string(m.Text))
		if w := n / each; err != nil || ended || next[w] != n%each {
			t.Errorf("got %q, want message %d of its writer", m.Text, next[w])
		} else {
			next[w]++
		}
	})
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range each {
				if err := q.Put(t.Context(), message(strconv.Itoa(w*each+i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	q.Close(io.EOF)
	q.Wait()
	for w, n := range next {
		if n != each || !ended {
			t.Errorf("%d messages of writer %d were taken; the end: %v", n, w, ended)
		}
	}
}

func TestPushContinuesAfterPanic(t *testing.T) {
	q := queue.New(1000, time.Second)
	taken := 0
	q.Push(func(transport.Message, error) {
		if taken++; taken == 1 {
			panic("take")
		}
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Put has not called take")
			}
		}()
		q.Put(t.Context(), message("1"))
	}()
	if err := q.Put(t.Context(), message("2")); err != nil || taken != 2 {
		t.Errorf("%d messages were taken, %v", taken, err)
	}
}

// Put waits while the reader makes progress with the messages that it has taken. It fails when
// there has been no progress for the stall timeout.
func TestPutWaitsForSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(1, time.Second)
		q.Put(t.Context(), message("1"))
		start := time.Now()
		go func() {
			for range 10 {
				time.Sleep(900 * time.Millisecond)
				q.Moved()
			}
		}()
		err := q.Put(t.Context(), message("2"))
		if took := time.Since(start); err != transport.ErrStalled || took < 10*time.Second || took > 11*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

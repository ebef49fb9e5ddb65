package queue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/transport"
	"github.com/mcpwire/mcpwire/runtime/transport/internal/queue"
)

func message(text string) transport.Message { return transport.Message{Text: []byte(text)} }

func TestPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(1000, time.Second)
		q.Put(t.Context(), message("1"))
		q.Put(t.Context(), message("2"))
		var got []string // take is never called twice at once
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

func TestPushTellsOfAnEndThatWasBefore(t *testing.T) {
	q := queue.New(1000, time.Second)
	q.Put(t.Context(), message("1"))
	q.Close(io.EOF)
	var got []string
	q.Push(func(m transport.Message, err error) { got = append(got, fmt.Sprint(string(m.Text), err)) })
	if want := []string{"1<nil>", "EOF"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Who puts while another message is being taken waits for its turn, and not for ever.
func TestPushWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New(1000, time.Second)
		release := make(chan struct{})
		q.Push(func(transport.Message, error) { <-release })
		go q.Put(context.Background(), message("1"))
		synctest.Wait()
		if err := q.Put(t.Context(), message("2")); !errors.Is(err, transport.ErrStalled) {
			t.Errorf("got %v, want %v", err, transport.ErrStalled)
		}
		cause := errors.New("no patience")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, cause)
		defer cancel()
		if err := q.Put(ctx, message("3")); err != cause {
			t.Errorf("got %v, want %v", err, cause)
		}
		close(release)
		if err := q.Put(t.Context(), message("4")); err != nil {
			t.Error(err)
		}
	})
}

package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/runtime/server"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/memory"
)

// unreadable is a store that fails to read and to create records while failing is set.
type unreadable struct {
	task.Store
	failing bool
}

func (u *unreadable) Get(ctx context.Context, id string) (task.Record, error) {
	if u.failing {
		return task.Record{}, errors.New("disk is on fire")
	}
	return u.Store.Get(ctx, id)
}

func (u *unreadable) Create(ctx context.Context, r task.Record) (task.Record, error) {
	if u.failing {
		return task.Record{}, errors.New("disk is on fire")
	}
	return u.Store.Create(ctx, r)
}

// Without StateKeys, servers with one store continue each other's calls.
func TestDefaultStateKeyIsInStoreOfTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := func(store task.Store) *server.Server {
			s := newServer(t, server.Options{Tasks: task.Options{Store: store}})
			addTool(s, func(ctx context.Context, c *server.Call) (string, error) { return askName(ctx, c, "Who?") })
			return s
		}
		store := &unreadable{Store: memory.New()}
		answer := func(s *server.Server, r *round) string {
			return connectRounds(t, s).round("tools/call", do, r, map[string]string{r.name(t): accept(`{"name":"Ada"}`)}).text
		}
		one := start(store)
		first := connectRounds(t, one).round("tools/call", do, nil, nil)
		one.Close()
		broken := start(store)
		store.failing = true
		lost := connectRounds(t, broken).round("tools/call", do, nil, nil)
		store.failing = false
		time.Sleep(10 * time.Second)
		if got := answer(broken, first); got != "accept Ada" {
			t.Errorf("after the store has failed: got %s", got)
		}
		if got := answer(broken, lost); got != "accept Ada" {
			t.Errorf("what was sealed meanwhile: got %s", got)
		}
		broken.Close()
		if got := answer(start(store), first); got != "accept Ada" {
			t.Errorf("after a restart: got %s", got)
		}
		if n, err := store.List(t.Context(), "", 0, 10); err != nil || len(n) != 0 {
			t.Errorf("tasks of no principal: %v, %v", n, err)
		}
	})
}

func TestDefaultStateKeyWithoutStoreEndsWithServer(t *testing.T) {
	start := func() *server.Server {
		s := newServer(t, server.Options{})
		addTool(s, func(ctx context.Context, c *server.Call) (string, error) { return askName(ctx, c, "Who?") })
		return s
	}
	r := connectRounds(t, start()).round("tools/call", do, nil, nil)
	got := connectRounds(t, start()).round("tools/call", do, r, map[string]string{r.name(t): accept(`{"name":"Ada"}`)})
	if !strings.Contains(got.text, "sealed with a key that this server does not have") {
		t.Errorf("got %s", got.text)
	}
}

package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// stateKeyID is the id of the record that holds the default of [Shared.StateKeys]. All servers that
// use the store, one after the other or at the same time, share the key. The record looks like a
// task that has completed and never expires. Its owner is no principal, so no requestor finds it.
const (
	stateKeyID    = "mcpwire.state-key"
	stateKeyOwner = "\x00" + stateKeyID
)

// stateKeys are the keys for what passes through clients.
type stateKeys struct {
	store  task.Store // of the default key; nil if the configuration has keys, or no store
	logger *slog.Logger

	mu     sync.Mutex
	random []byte      // the default without a store, and while the store fails
	keys   *rerun.Keys // nil until it is known
	next   time.Time   // when the store is asked again after it has failed
}

func newStateKeys(cfg *Options) *stateKeys {
	k := &stateKeys{logger: cfg.Logger}
	switch {
	case len(cfg.Shared.StateKeys) > 0:
		k.keys = rerun.NewKeys(cfg.Shared.StateKeys...)
	case cfg.Tasks.Store != nil:
		k.store = cfg.Tasks.Store
		fallthrough
	default:
		k.random = make([]byte, rerun.MinKey)
		rand.Read(k.random)
		if k.store == nil {
			k.keys = rerun.NewKeys(k.random)
		}
	}
	return k
}

// get returns the keys. The first call reads the default key from the store, or stores it. While
// the store fails, get returns a key that is lost when the process ends.
func (k *stateKeys) get(ctx context.Context) *rerun.Keys {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.keys != nil:
		return k.keys
	case time.Now().Before(k.next):
		return rerun.NewKeys(k.random)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stateKeyTimeout)
	defer cancel()
	stored, err := storedKey(ctx, k.store, k.random)
	if err != nil {
		k.logger.Warn("calls that wait for input do not survive this process", "error", err)
		k.next = time.Now().Add(stateKeyPause)
		return rerun.NewKeys(k.random)
	}
	// What was sealed while the store failed must be opened, too.
	k.keys = rerun.NewKeys(stored, k.random)
	return k.keys
}

// Limits of the requests for the default key.
const (
	stateKeyTimeout = 2 * time.Second  // how long calls wait for it
	stateKeyPause   = 10 * time.Second // how long they do without it after the store has failed
)

// storedKey returns the key in a store. If there is none, it stores the given one.
func storedKey(ctx context.Context, store task.Store, random []byte) (key []byte, err error) {
	defer boundary.Catch(&err)
	r, err := store.Get(ctx, stateKeyID)
	if errors.Is(err, task.ErrNotFound) {
		text, _ := json.Marshal(random)
		now := store.Now().UTC().Truncate(time.Microsecond)
		r, err = store.Create(ctx, task.Record{ID: stateKeyID, Owner: stateKeyOwner, Status: mcp.TaskStatusCompleted, Created: now, Updated: now, Result: text})
		if errors.Is(err, task.ErrExists) { // another process was faster
			r, err = store.Get(ctx, stateKeyID)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(r.Result, &key); err != nil || len(key) < rerun.MinKey {
		return nil, fmt.Errorf("%w: record %s", task.ErrCorrupt, stateKeyID)
	}
	return key, nil
}

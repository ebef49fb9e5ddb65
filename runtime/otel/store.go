package otel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// Store returns a store that measures the calls of s, except those that last as long as their
// callers decide or that do not use the records: Wait, Scan, Acquire, Join, Now, Health and Close.
// [Telemetry.Server] and [Telemetry.Tasks] call it.
func (t *Telemetry) Store(s task.Store) task.Store { return &measured{Store: s, t: t} }

// measured is a store whose calls are measured.
type measured struct {
	task.Store
	t       *Telemetry
	options copied[call, []metric.RecordOption]
}

// call is a method of a store and the error.type of its error.
type call struct{ operation, errorType string }

// record records a call that began at start.
func (s *measured) record(operation string, start time.Time, err error) {
	s.t.guard(func() {
		c := call{operation, storeError(err)}
		options, _ := s.options.get(c, 100, func() []metric.RecordOption {
			attrs := []attribute.KeyValue{keyStoreCall.String(c.operation)}
			if c.errorType != "" {
				attrs = append(attrs, keyErrorType.String(c.errorType))
			}
			return recordOptions(attrs)
		})
		s.t.storeDuration.Record(context.Background(), time.Since(start).Seconds(), options...)
	})
}

// storeError returns the error.type of an error of a store.
func storeError(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, task.ErrNotFound):
		return "not_found"
	case errors.Is(err, task.ErrExists):
		return "exists"
	case errors.Is(err, task.ErrConflict):
		return "conflict"
	case errors.Is(err, task.ErrCorrupt):
		return "corrupt"
	case errors.Is(err, task.ErrClosed):
		return "closed"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return other
}

// Create implements [task.Store].
func (s *measured) Create(ctx context.Context, r task.Record) (stored task.Record, err error) {
	start := time.Now()
	stored, err = s.Store.Create(ctx, r)
	s.record("create", start, err)
	return stored, err
}

// Get implements [task.Store].
func (s *measured) Get(ctx context.Context, id string) (r task.Record, err error) {
	start := time.Now()
	r, err = s.Store.Get(ctx, id)
	s.record("get", start, err)
	return r, err
}

// Journal implements [task.Store].
func (s *measured) Journal(ctx context.Context, id string) (entries []task.Entry, err error) {
	start := time.Now()
	entries, err = s.Store.Journal(ctx, id)
	s.record("journal", start, err)
	return entries, err
}

// Update implements [task.Store].
func (s *measured) Update(ctx context.Context, r task.Record) (stored task.Record, err error) {
	start := time.Now()
	stored, err = s.Store.Update(ctx, r)
	s.record("update", start, err)
	return stored, err
}

// List implements [task.Store].
func (s *measured) List(ctx context.Context, owner string, after uint64, limit int) (briefs []task.Record, err error) {
	start := time.Now()
	briefs, err = s.Store.List(ctx, owner, after, limit)
	s.record("list", start, err)
	return briefs, err
}

// Sweep implements [task.Store].
func (s *measured) Sweep(ctx context.Context, now time.Time, limit int) (dropped []task.Record, next time.Time, err error) {
	start := time.Now()
	dropped, next, err = s.Store.Sweep(ctx, now, limit)
	s.record("sweep", start, err)
	return dropped, next, err
}

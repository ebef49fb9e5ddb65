package replay

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
)

// Rounds is the Backend of a plain call whose input requests travel in results. It collects the
// results and the open input requests for the next round.
type Rounds struct {
	mu      sync.Mutex
	entries []Entry
	open    []Open
}

// Open is an input request without a response.
type Open struct {
	Asked
	Value any // from [Request.Prepare]
}

// NewRounds returns the Backend for a run with the results of earlier rounds.
func NewRounds(earlier []Entry) *Rounds { return &Rounds{entries: slices.Clone(earlier)} }

// Input implements [Backend]. It always returns [ErrSuspended].
func (b *Rounds) Input(ctx context.Context, asked *Asked, value any) (json.RawMessage, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := Open{*asked, value}
	o.Name = b.name(ctx, asked.ID, asked.Method)
	b.open = append(b.open, o)
	return nil, ErrSuspended
}

// Record implements [Backend].
func (b *Rounds) Record(_ context.Context, e Entry) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, e)
	return nil
}

// Recorded returns the results so far. It returns false if an input request has ended the round.
func (b *Rounds) Recorded() (entries []Entry, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.entries), func(e Entry) bool { return e.transient() }), len(b.open) == 0
}

// Ended returns the results for the next round, and the input requests that have ended this one. It
// is called once, after the run.
func (b *Rounds) Ended() (entries []Entry, open []Open) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(b.entries, func(e Entry) bool { return e.transient() }), b.open
}

type nameKey struct{}

// WithName returns a context in which an input request has a name in messages.
func WithName(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

// name returns the name of an input request in messages: that of [WithName], or one that differs
// from those of all other requests of the call, so that a late response does no harm. The caller
// must hold mu.
func (b *Rounds) name(ctx context.Context, id ID, method string) string {
	name, _ := ctx.Value(nameKey{}).(string)
	if name == "" {
		name = shortName(method, id)
	}
	taken := func(o Open) bool { return o.Name == name }
	for n, base := 2, name; slices.ContainsFunc(b.open, taken); n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}

const hexDigits = "0123456789abcdef"

// shortName returns a name with the part of the method before the slash, the beginning of the key
// and the occurrence.
func shortName(method string, id ID) string {
	end := 0
	for end < len(method) && method[end] != '/' {
		end++
	}
	name := append([]byte(method[:end]), '-')
	for i := 0; i < len(id.Key) && i < 6; i++ {
		name = append(name, hexDigits[id.Key[i]>>4], hexDigits[id.Key[i]&15])
	}
	if id.Occurrence > 1 {
		name = strconv.AppendInt(append(name, '-'), int64(id.Occurrence), 10)
	}
	return string(name)
}

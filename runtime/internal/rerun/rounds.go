package rerun

import (
	"context"
	"crypto/sha256"
	"slices"
	"strconv"

	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
)

// Open is an input request that ends a round.
type Open struct {
	Asked
	Value any // from [Request].Prepare
}

// askInRound adds an input request to those that end the round. If the call has become a task
// meanwhile, or if the round has as many as it may have, the input request is made when the handler
// runs again.
func (l *Log) askInRound(ctx context.Context, b *branch, a *Asked, value any) error {
	l.lockSettled()
	defer l.mu.Unlock()
	if l.task == nil && len(l.open) < taskrules.MaxOpenInput {
		o := Open{*a, value}
		o.Name = l.name(ctx, a.ID, a.Method)
		l.open = append(l.open, o)
	}
	b.suspended = true
	l.setSuspended()
	return &InputRequiredError{a.Method, l.pkg}
}

// Left returns the input requests of earlier runs that have no outcome, and that this run, which
// has ended a round, has not made again: it has not come to them. They have no name, because the
// client does not get them. The run that makes them again has their deadlines.
func (l *Log) Left() (left []Asked) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.pending {
		made := slices.ContainsFunc(l.open, func(o Open) bool { return o.ID == a.ID })
		ended := slices.ContainsFunc(l.entries, func(e Entry) bool { return e.ID == a.ID })
		b := l.branches[a.Branch] // of a wait that has ended, perhaps
		ended = ended || b != nil && b.selection != nil && b.selection.decided
		if a.Occurrence > 0 && !made && !ended {
			a.Name = ""
			left = append(left, a)
		}
	}
	return left
}

type nameKey struct{}

// WithName returns a context in which an input request has a name in messages.
func WithName(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, nameKey{}, name)
}

// name returns the name of an input request in messages: that of [WithName], or one that differs
// from those of all other requests of the call, so that a late response does no harm. The caller
// must hold mu.
func (l *Log) name(ctx context.Context, id ID, method string) string {
	name, _ := ctx.Value(nameKey{}).(string)
	if name == "" {
		name = shortName(method, id)
	}
	taken := func(o Open) bool { return o.Name == name }
	for n, base := 2, name; slices.ContainsFunc(l.open, taken); n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}

const hexDigits = "0123456789abcdef"

// shortName returns a name with the part of the method before the slash, the beginning of a digest
// of the key and the branch, and the occurrence.
func shortName(method string, id ID) string {
	end := 0
	for end < len(method) && method[end] != '/' {
		end++
	}
	digest := id.Key
	if id.Branch != "" {
		sum := sha256.Sum256([]byte(id.Key + id.Branch))
		digest = string(sum[:])
	}
	name := append([]byte(method[:end]), '-')
	for i := 0; i < len(digest) && i < 6; i++ {
		name = append(name, hexDigits[digest[i]>>4], hexDigits[digest[i]&15])
	}
	if id.Occurrence > 1 {
		name = strconv.AppendInt(append(name, '-'), int64(id.Occurrence), 10)
	}
	return string(name)
}

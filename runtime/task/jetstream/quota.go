package jetstream

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/quota"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// wireQuota is the JSON of a quota.
type wireQuota struct {
	Name   string      `json:"name"`
	Shares quota.State `json:"shares"`
}

// quotaView holds the latest known state of a quota in which this member has a part.
type quotaView struct {
	name  string
	sub   *nats.Subscription
	state quota.State
	seq   uint64 // of the message; 0 if there is none
	// doubtful is set if the leader had an earlier message: the stream was created again or restored,
	// or the leader was cut off. Only a write finds out which.
	doubtful bool
}

func (s *store) quotaStream() string         { return s.options.Name + "-quotas" }
func (s *store) quotaKey(key string) string  { return s.options.Name + ".quotas.q." + key }
func (s *store) quotaHint(key string) string { return s.options.Name + ".quotas.w." + key }

// quotaDigest returns the token of a subject that stands for the name of a quota.
func quotaDigest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// quotasConfig returns the configuration of the stream of quotas. Announcements carry the quota, so
// that the members that wait for permits need not read it.
func (s *store) quotasConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: s.quotaStream(), Description: "Quotas of the fleet", Subjects: []string{s.quotaKey("*")},
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, Storage: s.options.Storage,
		MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgsPerSubject: 1, Replicas: max(s.options.Replicas, 1),
		AllowDirect: true, AllowMsgTTL: true,
		RePublish: &jetstream.RePublish{Source: s.quotaKey("*"), Destination: s.quotaHint("{{wildcard(1)}}")},
		Metadata:  map[string]string{metaSchema: strconv.Itoa(schema), metaPartitions: strconv.Itoa(s.partitions)},
	}
}

// Reserve implements [fleets.Membership].
func (m *membership) Reserve(ctx context.Context, name string, r fleets.Reservation) error {
	view, err := m.viewQuota(name)
	if err != nil {
		return wrap("reserve", err)
	}
	m.mu.Lock()
	state, seq, known := view.state, view.seq, view.seq > 0 && !view.doubtful
	m.mu.Unlock()
	err = m.s.retry(ctx, "reserve", func(ctx context.Context) (err error) {
		if !known {
			if state, seq, err = m.readQuota(ctx, view); err != nil {
				return err
			}
		}
		known = false // after a failure
		return m.writeQuota(ctx, view, state, seq, r)
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && !view.state.Has(m.self.ID) && m.quotas[view.sub.Subject] == view {
		delete(m.quotas, view.sub.Subject)
		view.sub.Unsubscribe() // fails only if the connection is closed
	}
	return err
}

// Share implements [fleets.Membership].
func (m *membership) Share(name string) fleets.Share {
	m.mu.Lock()
	defer m.mu.Unlock()
	view := m.quotas[m.s.quotaHint(quotaDigest(name))]
	if view == nil {
		return fleets.Share{}
	}
	share := view.state.Share(m.self.ID, func(id string) bool { _, known := m.members[id]; return known })
	share.Stale = share.Stale || view.doubtful
	return share
}

// viewQuota returns the view of a quota, which announcements keep up to date.
func (m *membership) viewQuota(name string) (*quotaView, error) {
	subject := m.s.quotaHint(quotaDigest(name))
	m.mu.Lock()
	defer m.mu.Unlock()
	if view := m.quotas[subject]; view != nil {
		return view, nil
	}
	sub, err := m.s.nc.ChanSubscribe(subject, m.messages)
	if err != nil {
		return nil, err
	}
	view := &quotaView{name: name, sub: sub}
	m.quotas[subject] = view
	return view, nil
}

// readQuota reads a quota from the leader, once, and applies it unless the view has a later message.
// It returns what it has read, with the sequence 0 if there is no message.
func (m *membership) readQuota(ctx context.Context, view *quotaView) (state quota.State, seq uint64, err error) {
	m.mu.Lock()
	before := view.seq
	m.mu.Unlock()
	msg, err := m.s.read(ctx, m.s.quotaStream(), getRequest{Last: m.s.quotaKey(quotaDigest(view.name))})
	if err != nil {
		return nil, 0, err
	}
	if msg != nil {
		seq = msg.Seq
		if state, _, err = m.seeQuota(view, seq, msg.Data); err != nil {
			return nil, 0, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	view.doubtful = seq < before
	return state, seq, nil
}

// seeQuota applies a message of a quota, and returns its content. Newer is false if the view has a
// later message.
func (m *membership) seeQuota(view *quotaView, seq uint64, data []byte) (state quota.State, newer bool, err error) {
	var wire wireQuota
	if err := json.Unmarshal(data, &wire); err != nil {
		return nil, false, fmt.Errorf("quota %q: %w", view.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if newer = seq > view.seq; newer {
		view.state, view.seq = wire.Shares, seq
	}
	return wire.Shares, newer, nil
}

// writeQuota writes a reservation by compare-and-set, once: seq is the sequence of the message with
// the state, or 0 if there is none. It writes even if nothing changes, so that no earlier write whose
// acknowledgement was lost can follow.
func (m *membership) writeQuota(ctx context.Context, view *quotaView, state quota.State, seq uint64, r fleets.Reservation) error {
	m.mu.Lock()
	before := view.seq
	m.mu.Unlock()
	dead := map[string]bool{}
	for i := range state {
		id := state[i].Member
		m.mu.Lock()
		_, known := m.members[id]
		m.mu.Unlock()
		if known {
			continue
		}
		alive, err := m.Alive(ctx, id)
		if err != nil {
			return err
		}
		dead[id] = !alive
	}
	select {
	case <-m.expired:
		return task.ErrClosed
	default:
	}
	state = state.Reserve(m.self.ID, r, func(id string) bool { return dead[id] })
	data, err := json.Marshal(wireQuota{view.name, state})
	if err != nil {
		return err
	}
	ttl := time.Duration(0)
	if len(state) == 0 {
		ttl = time.Second // the servers remove a quota without members
	}
	msg := newMessage(m.s.quotaKey(quotaDigest(view.name)), data, ttl)
	msg.Header.Set(headerExpect, strconv.FormatUint(seq, 10))
	msg.Header.Set(headerStore, m.s.id)
	written, err := m.s.publish(ctx, msg)
	if hasCode(err, codeWrongSequence, codeSequenceInProcess) {
		return errRepeat{err} // another member was faster
	}
	if err != nil {
		return err
	}
	// The servers have accepted seq as the latest, so a later message is one that they have lost.
	replaced := before > seq
	m.mu.Lock()
	if written > view.seq || replaced {
		view.state, view.seq, view.doubtful = state, written, false
	}
	m.mu.Unlock()
	if replaced { // announcements since then were taken for earlier ones
		_, _, err = m.readQuota(ctx, view)
	}
	return err
}

// processQuota applies an announcement of a quota.
func (m *membership) processQuota(msg *nats.Msg) {
	m.mu.Lock()
	view := m.quotas[msg.Subject]
	m.mu.Unlock()
	seq, err := strconv.ParseUint(msg.Header.Get(headerSequence), 10, 64)
	if view == nil || err != nil {
		return
	}
	if _, newer, err := m.seeQuota(view, seq, msg.Data); err == nil && newer && msg.Header.Get(headerStore) != m.s.id {
		m.events.Shared(view.name)
	}
}

// readQuotas reads those quotas in which the member has a part for which the function returns true. It
// returns false if one of them cannot be read now. The function is called while mu is held.
func (m *membership) readQuotas(which func(view *quotaView) bool) (ok bool) {
	m.mu.Lock()
	var views []*quotaView
	for _, view := range m.quotas {
		if which(view) {
			views = append(views, view)
		}
	}
	m.mu.Unlock()
	ok = true
	for _, view := range views {
		if m.s.retry(m.lifetime, "read quota", func(ctx context.Context) error { _, _, err := m.readQuota(ctx, view); return err }) != nil {
			ok = false
			continue
		}
		m.events.Shared(view.name)
	}
	return ok
}

package jetstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Headers of this package.
const (
	// headerStore identifies the Store that has published a message, so that it can ignore its own.
	headerStore = "Mcpwire-Store"
	// headerWrite identifies the write of a record.
	headerWrite = "Mcpwire-Write"
	// headerMessage marks a message of Send among the hints of a task.
	headerMessage = "Mcpwire-Message"
	// headerLeft marks the last message of a member that has left.
	headerLeft = "Mcpwire-Left"
	// headerDraining marks the messages of a member that drains.
	headerDraining = "Mcpwire-Draining"
	// headerMissing identifies what a member is missing; see markOf.
	headerMissing = "Mcpwire-Missing"
	// headerLoad has the load of a member, as encodeLoad returns it.
	headerLoad = "Mcpwire-Load"
	// headerQuery marks a request of Query, and headerResponse its response, among the offers to a
	// member. Their value identifies the request. headerMember has the member that sends it.
	headerQuery    = "Mcpwire-Query"
	headerResponse = "Mcpwire-Response"
	headerMember   = "Mcpwire-Member"
	// headerMarker marks a message that the server writes when another one has expired.
	headerMarker = "Nats-Marker-Reason"
)

// minLease is the shortest lease. The servers count lifetimes in seconds.
const minLease = time.Second

// membership is a member of the fleet of the processes that have opened a store.
//
// Each member has a message in the stream of members, which expires with its lease. It renews the
// message by compare-and-set, so that a member that the others have seen dead stays dead.
type membership struct {
	s       *store
	self    task.Member // Draining, Missing, Heard and Load are guarded by mu
	started time.Time   // with a monotonic reading
	events  fleets.Events
	expired chan struct{}
	lost    chan struct{} // closed by lose
	changed chan struct{} // capacity 1; signals that Drain or Announce was called
	renewed chan struct{} // closed when the goroutine that renews the lease has ended
	// lifetime ends with leave, which Leave calls, and with the Store.
	lifetime context.Context
	leave    context.CancelFunc

	messages chan *nats.Msg
	subs     []*nats.Subscription
	status   chan nats.Status

	mu       sync.Mutex
	seq      uint64               // of the latest message of the member
	until    time.Time            // end of the lease by the clock of this process
	members  map[string]known     // this one included, as it has joined
	followed map[string]*followed // by subject of its hints
	queries  map[string]*query    // by what identifies the request; see Query
	// quotas holds the quotas in which the member has a part, by subject of their announcements.
	quotas map[string]*quotaView
}

// known is a living member. It was heard from when its latest message was announced or read first.
type known struct {
	task.Member
	seq    uint64 // of that message
	opaque bool   // the message could not be decoded, so that the lease is not known
}

// query is a call of Query. It is guarded by mu of the membership.
type query struct {
	waiting   map[string]bool   // members that have not responded
	responses map[string][]byte // by the ID of the member
	done      chan struct{}     // closed once waiting is empty
}

// followed holds the calls of Follow for one task.
type followed struct {
	id    string
	sub   *nats.Subscription
	calls []*fleets.Follower
	seq   uint64 // sequence of the latest record that was announced or written here
	// failed are the writes of this Store that may have happened although it has returned an error,
	// since the latest one that succeeded.
	failed []writeID
}

// wireMember is the JSON of a member.
type wireMember struct {
	Name   string    `json:"name"`
	Tools  []string  `json:"tools"` // null stands for all
	Lease  int64     `json:"leaseMs"`
	Joined time.Time `json:"joined"`
	// Draining is absent in the messages of versions that do not drain.
	Draining bool `json:"draining,omitempty"`
	// Load is absent in the messages of versions that do not report it; see encodeLoad.
	Load string `json:"load,omitempty"`
	// Labels is absent in the messages of versions that have none.
	Labels []string `json:"labels,omitempty"`
	// Missing is absent in the messages of versions that do not report it.
	Missing []fleets.Missing `json:"missing,omitempty"`
}

// encodeMember returns the JSON of a member.
func encodeMember(m task.Member) ([]byte, error) {
	return json.Marshal(wireMember{m.Name, m.Tools, m.Lease.Milliseconds(), m.Joined, m.Draining, encodeLoad(m.Load), m.Labels, m.Missing})
}

// markOf identifies a list of what a member is missing. It is "" for an empty one. The others read
// the list only if its mark has changed.
func markOf(missing []fleets.Missing) string {
	if len(missing) == 0 {
		return ""
	}
	hash := sha256.New()
	json.NewEncoder(hash).Encode(missing)
	return hex.EncodeToString(hash.Sum(nil)[:12])
}

// encodeLoad returns the load of a member as text.
func encodeLoad(l fleets.Load) string { return fmt.Sprintf("%d %d %d", l.Running, l.Queued, l.Parked) }

// decodeLoad undoes encodeLoad. It returns the zero value for other texts.
func decodeLoad(text string) (l fleets.Load) {
	if _, err := fmt.Sscanf(text, "%d %d %d", &l.Running, &l.Queued, &l.Parked); err != nil {
		return fleets.Load{}
	}
	return l
}

func (s *store) memberStream() string           { return s.options.Name + "-members" }
func (s *store) memberKey(id string) string     { return s.options.Name + ".members.l." + id }
func (s *store) rosterSubject(id string) string { return s.options.Name + ".members.h." + id }
func (s *store) memberHint(id string) string    { return s.options.Name + ".members.w." + id }
func (s *store) offerSubject(id string) string  { return s.options.Name + ".members.o." + id }

// membersConfig returns the configuration of the stream of members.
func (s *store) membersConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: s.memberStream(), Description: "Members of the fleet", Subjects: []string{s.memberKey("*"), s.rosterSubject("*")},
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, Storage: s.options.Storage,
		MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgsPerSubject: 1, Replicas: max(s.options.Replicas, 1),
		AllowDirect: true, AllowMsgTTL: true, SubjectDeleteMarkerTTL: time.Minute,
		RePublish: &jetstream.RePublish{Source: s.memberKey("*"), Destination: s.memberHint("{{wildcard(1)}}"), HeadersOnly: true},
		Metadata:  map[string]string{metaSchema: strconv.Itoa(schema), metaPartitions: strconv.Itoa(s.partitions)},
	}
}

// Join implements [task.Store].
func (s *store) Join(ctx context.Context, self task.Member, e fleets.Events) (joined fleets.Membership[task.Member, task.Record], err error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	fleets.SetDefaults(&self.Name, &self.Lease)
	if self.Lease < minLease {
		return nil, fmt.Errorf("jetstream: join: lease of %v is too short (must be at least %v)", self.Lease, minLease)
	}
	self.ID, self.Joined, self.Draining, self.Missing = rand.Text(), s.Now().UTC().Truncate(time.Millisecond), false, nil
	m := &membership{
		s: s, self: self, started: time.Now(), events: e,
		expired: make(chan struct{}), lost: make(chan struct{}), changed: make(chan struct{}, 1), renewed: make(chan struct{}),
		messages: make(chan *nats.Msg, hintQueue), members: map[string]known{self.ID: {Member: self}},
		followed: map[string]*followed{}, queries: map[string]*query{}, quotas: map[string]*quotaView{},
	}
	m.lifetime, m.leave = context.WithCancel(s.lifetime)
	defer func() {
		if err != nil {
			m.unsubscribe()
			m.leave()
		}
	}()
	m.sampleLoad()
	m.self.Heard = time.Now()
	m.until = m.self.Heard.Add(self.Lease)
	if err := s.retry(ctx, "join", m.renew); err != nil {
		return nil, err
	}
	// After the member is alive, because members that have ended are removed from the roster.
	if err := s.enroll(ctx, self.ID); err != nil {
		return nil, err
	}
	if err := m.subscribe(); err != nil {
		return nil, wrap("join", err)
	}
	if err := m.load(ctx); err != nil {
		return nil, err
	}
	s.member.Store(m)
	s.running.Go(m.receive) // both end with the membership or with the store
	s.running.Go(m.keep)
	return m, nil
}

// subscribe subscribes to the changes of the members, to offers, and to elections of leaders, at
// which changes may be lost.
func (m *membership) subscribe() error {
	s := m.s
	subjects := []string{s.memberHint("*"), s.offerSubject(m.self.ID), electionPrefix + s.memberStream(), electionPrefix + s.quotaStream()}
	for partition := range s.partitions {
		subjects = append(subjects, electionPrefix+s.recordStream(partition))
	}
	for _, subject := range subjects {
		sub, err := s.nc.ChanSubscribe(subject, m.messages)
		if err != nil {
			return err
		}
		m.subs = append(m.subs, sub)
	}
	m.status = s.nc.StatusChanged(nats.CONNECTED)
	return nil
}

func (m *membership) unsubscribe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sub := range m.subs {
		sub.Unsubscribe() // fails only if the connection is closed
	}
	for _, f := range m.followed {
		f.sub.Unsubscribe()
	}
	for _, view := range m.quotas {
		view.sub.Unsubscribe()
	}
	if m.status != nil {
		m.s.nc.RemoveStatusListener(m.status)
	}
}

// renew writes the message of the member once. It fails with task.ErrConflict if the lease has
// ended.
func (m *membership) renew(ctx context.Context) error {
	return m.write(ctx, m.self.Lease, false)
}

// write writes the message of the member, with a lifetime. Left marks the last one.
func (m *membership) write(ctx context.Context, lifetime time.Duration, left bool) error {
	m.mu.Lock()
	before, self := m.seq, m.self
	m.mu.Unlock()
	var data []byte
	if !left {
		var err error
		if data, err = encodeMember(self); err != nil {
			return err
		}
	}
	msg := newMessage(m.s.memberKey(self.ID), data, lifetime)
	msg.Header.Set(headerExpect, strconv.FormatUint(before, 10))
	msg.Header.Set(headerBegun, time.Since(m.started).String())
	if left {
		msg.Header.Set(headerLeft, "1")
	}
	msg.Header.Set(headerLoad, encodeLoad(self.Load))
	if mark := markOf(self.Missing); mark != "" {
		msg.Header.Set(headerMissing, mark)
	}
	if self.Draining {
		msg.Header.Set(headerDraining, "1")
	}
	seq, err := m.s.publish(ctx, msg)
	if hasCode(err, codeWrongSequence, codeSequenceInProcess) {
		// An earlier attempt may have written it although its acknowledgement was lost. No other
		// process writes the message.
		var present *message
		if present, err = m.s.read(ctx, m.s.memberStream(), getRequest{Last: msg.Subject}); err == nil {
			switch {
			case present == nil && before == 0, present != nil && present.Seq == before:
				err = nats.ErrTimeout // a write is still under way
			case present == nil || len(present.Data) == 0:
				return task.ErrConflict
			default:
				seq = present.Seq
				if !bytes.Equal(present.Data, data) {
					err = nats.ErrTimeout // the member has changed since that attempt
				}
			}
		}
	}
	m.mu.Lock()
	m.seq = max(m.seq, seq)
	m.mu.Unlock()
	return err
}

// keep renews the lease until the membership ends.
func (m *membership) keep() {
	defer close(m.renewed)
	timer := time.NewTimer(m.self.Lease / 3)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-m.changed:
		case <-m.lost:
		case <-m.lifetime.Done():
			return
		}
		m.sampleLoad()
		begun, until := time.Now(), m.lease()
		limited, cancel := context.WithDeadline(m.lifetime, until)
		err := m.s.retry(limited, "renew lease", m.renew)
		cancel()
		// A renewal that is acknowledged late may have been replaced by the marker of the end.
		late := !time.Now().Before(until)
		switch {
		case m.lifetime.Err() != nil:
			return
		case late || errors.Is(err, task.ErrConflict):
			m.unsubscribe()
			close(m.expired)
			m.leave()
			return
		case err == nil:
			until = begun.Add(m.self.Lease)
			m.mu.Lock()
			if !m.until.IsZero() {
				m.until = until
			}
			m.self.Heard = begun
			m.mu.Unlock()
		}
		timer.Reset(min(m.self.Lease/3, max(time.Until(until), minPause)))
	}
}

// sampleLoad sets the load that the next renewal writes.
func (m *membership) sampleLoad() {
	if m.events.Load == nil {
		return
	}
	load := m.events.Load()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Load = load
}

// lease returns when the lease ends by the clock of this process.
func (m *membership) lease() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

// lapsed reports whether other members may find this one dead.
func (m *membership) lapsed() bool {
	select {
	case <-m.lifetime.Done():
		return true
	case <-m.expired:
		return true
	default:
		return !time.Now().Before(m.lease())
	}
}

// load reads all members. Those that are not there any longer have departed.
func (m *membership) load(ctx context.Context) error {
	s := m.s
	stream, prefix := s.memberStream(), s.memberKey("")
	last, err := s.lastSequence(ctx, stream)
	if err != nil {
		return err
	}
	members := make(map[string]known)
	for from := uint64(1); from <= last; { // renewals that follow are announced
		messages, err := s.readSome(ctx, stream, prefix+"*", from, portion)
		if err != nil {
			return err
		}
		if len(messages) == 0 {
			break
		}
		for i := range messages {
			id := strings.TrimPrefix(messages[i].Subject, prefix)
			if delete(members, id); len(messages[i].Data) > 0 {
				members[id] = decodeMember(id, &messages[i])
			}
		}
		from = messages[len(messages)-1].Seq + 1
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, member := range members {
		if before, listed := m.members[id]; listed && before.seq >= member.seq { // replicas may lag behind
			members[id] = before
		}
	}
	members[m.self.ID] = known{Member: m.self}
	m.members = members
	return nil
}

// decodeMember decodes the message of a living member. A member whose message cannot be decoded
// holds its tasks until its lease ends, and takes over no more.
func decodeMember(id string, m *message) known {
	var wire wireMember
	opaque := json.Unmarshal(m.Data, &wire) != nil || wire.Lease <= 0
	if opaque {
		wire = wireMember{Name: "(unknown version)", Tools: []string{}, Lease: task.DefaultLease.Milliseconds(), Joined: m.Time, Draining: true}
	}
	return known{task.Member{
		ID: id, Name: wire.Name, Tools: wire.Tools, Lease: time.Duration(wire.Lease) * time.Millisecond, Joined: wire.Joined, Draining: wire.Draining,
		Load: decodeLoad(wire.Load), Labels: wire.Labels, Missing: wire.Missing, Heard: time.Now(),
	}, m.Seq, opaque}
}

// read reads a member from the leader. It returns nil if the member is not alive.
func (m *membership) read(ctx context.Context, id string) (*known, error) {
	msg, err := m.s.last(ctx, "read member", m.s.memberStream(), m.s.memberKey(id))
	if err != nil || msg == nil || len(msg.Data) == 0 {
		return nil, err
	}
	member := decodeMember(id, msg)
	return &member, nil
}

// receive processes messages until the membership ends.
func (m *membership) receive() {
	silence := time.NewTimer(m.self.Lease)
	defer silence.Stop()
	var again <-chan time.Time // nil unless missed has failed
	missed := func() {
		if again = nil; !m.missed() {
			again = time.After(maxPause + mathrand.N(maxPause))
		}
	}
	for {
		select {
		case <-silence.C:
			// Jitter spreads the reads of many members that miss the same announcement.
			silence.Reset(m.self.Lease/2 + mathrand.N(m.self.Lease))
			if len(m.messages) == 0 && !m.checkSilent() {
				missed()
			}
		case <-again:
			missed()
		case msg := <-m.messages:
			// The client drops messages while the queue is full.
			if len(m.messages) >= hintQueue-1 || strings.HasPrefix(msg.Subject, electionPrefix) {
				missed()
				continue
			}
			m.process(msg)
		case status, ok := <-m.status:
			if ok && status == nats.CONNECTED {
				m.forgetAnnounced()
				missed()
			}
		case <-m.expired:
			return
		case <-m.lifetime.Done():
			return
		}
	}
}

// missed reports that anything may have changed. It returns false if the members or the quotas
// cannot be read now.
func (m *membership) missed() bool {
	if m.load(m.lifetime) != nil {
		return false
	}
	m.mu.Lock()
	var all []*fleets.Follower
	for _, f := range m.followed {
		all = append(all, f.calls...)
	}
	m.mu.Unlock()
	for _, f := range all {
		f.Changed()
	}
	read := m.readQuotas(func(*quotaView) bool { return true })
	m.events.Departed()
	return read
}

// process processes one message.
func (m *membership) process(msg *nats.Msg) {
	s := m.s
	if msg.Subject == s.offerSubject(m.self.ID) {
		m.processOffer(msg)
		return
	}
	if id, ok := strings.CutPrefix(msg.Subject, s.memberHint("")); ok {
		m.processMember(id, msg.Header)
		return
	}
	if strings.HasPrefix(msg.Subject, s.quotaHint("")) {
		m.processQuota(msg)
		return
	}
	own := msg.Header.Get(headerStore) == s.id
	seq, _ := strconv.ParseUint(msg.Header.Get(headerSequence), 10, 64)
	m.mu.Lock()
	var calls []*fleets.Follower
	if f := m.followed[msg.Subject]; f != nil {
		f.seq = max(f.seq, seq)
		if !own || f.hasFailed(msg.Header.Get(headerWrite)) {
			calls = slices.Clone(f.calls)
		}
	}
	m.mu.Unlock()
	for _, f := range calls {
		if msg.Header.Get(headerMessage) == "" {
			f.Changed()
		} else if f.Message != nil {
			f.Message(msg.Data)
		}
	}
}

// hasFailed reports whether a write is one of those that may have happened. The caller holds the
// lock.
func (f *followed) hasFailed(write string) bool {
	return slices.ContainsFunc(f.failed, func(id writeID) bool { return id.String() == write })
}

// wrote applies the outcome of a write of this Store with the given sequence: a write that has
// failed, but may have happened, is reported as if another member had made it.
func (m *membership) wrote(subject string, write writeID, seq uint64, err error) {
	m.mu.Lock()
	f := m.followed[subject]
	if f == nil {
		m.mu.Unlock()
		return
	}
	if err == nil {
		f.failed, f.seq = nil, max(f.seq, seq)
		m.mu.Unlock()
		return
	}
	f.failed = append(f.failed[max(0, len(f.failed)-maxEarlier+1):], write)
	calls := slices.Clone(f.calls)
	m.mu.Unlock()
	for _, f := range calls {
		f.Changed() // its announcement may have come before
	}
}

// announced returns the sequence of the latest record of a task that its followers know to exist, or
// 0.
func (m *membership) announced(subject string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.followed[subject]; f != nil {
		return f.seq
	}
	return 0
}

// forgetAnnounced makes announced return 0 until the next announcements: the servers may have lost
// the latest writes when they were restarted.
func (m *membership) forgetAnnounced() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.followed {
		f.seq = 0
	}
}

// appendFollowed appends the ids of the tasks that are followed.
func (m *membership) appendFollowed(ids []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.followed {
		ids = append(ids, f.id)
	}
	return ids
}

// found reports a change whose announcement was lost. Seq is the sequence of the record, or 0 if
// there is none.
func (m *membership) found(subject string, seq uint64) {
	m.mu.Lock()
	f := m.followed[subject]
	if f == nil || seq != 0 && seq <= f.seq {
		m.mu.Unlock()
		return
	}
	f.seq = max(f.seq, seq)
	calls := slices.Clone(f.calls)
	m.mu.Unlock()
	for _, f := range calls {
		f.Changed()
	}
}

// processMember applies a change of a member.
func (m *membership) processMember(id string, header nats.Header) {
	ended := header.Get(headerLeft) != "" || header.Get(headerMarker) != ""
	if id == m.self.ID {
		if ended {
			m.lose()
		} else {
			m.sampleRenewal(header)
		}
		return
	}
	m.mu.Lock()
	member, listed := m.members[id]
	drains := listed && !ended && !member.Draining && header.Get(headerDraining) != ""
	if ended {
		delete(m.members, id)
	} else if listed {
		if seq, err := strconv.ParseUint(header.Get(headerSequence), 10, 64); err == nil && seq > member.seq {
			member.seq, member.Heard, member.Load = seq, time.Now(), decodeLoad(header.Get(headerLoad))
		}
		member.Draining = member.Draining || drains
		m.members[id] = member
	}
	m.mu.Unlock()
	if ended || drains {
		m.events.Departed()
	}
	if ended || listed && markOf(member.Missing) == header.Get(headerMissing) {
		return
	}
	if member, err := m.read(m.lifetime, id); err == nil && member != nil {
		m.mu.Lock()
		m.members[id] = *member
		m.mu.Unlock()
		if listed {
			m.events.Departed()
		}
	}
}

// lose makes keep end the membership.
func (m *membership) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.until.IsZero() {
		m.until = time.Time{}
		close(m.lost)
	}
}

// checkSilent looks for changes whose announcements servers have lost among themselves. It reads
// the quotas that this member waits for, and the members that have not been announced for two of
// their leases. It ends a member that has not renewed its lease since: the clock of a server was
// set back. It returns false if other announcements may have been lost, too.
func (m *membership) checkSilent() bool {
	m.mu.Lock()
	silent := make(map[string]known)
	for id, member := range m.members {
		if id != m.self.ID && !member.opaque && time.Since(member.Heard) > 2*member.Lease {
			silent[id] = member
		}
	}
	m.mu.Unlock()
	for id, before := range silent {
		member, err := m.read(m.lifetime, id)
		if err == nil && member != nil {
			if member.seq != before.seq {
				return false
			}
			err = m.s.endMember(m.lifetime, id, member.seq)
		}
		if err != nil {
			return false
		}
		m.mu.Lock()
		delete(m.members, id)
		m.mu.Unlock()
	}
	if len(silent) > 0 {
		m.events.Departed()
	}
	return m.readQuotas(func(view *quotaView) bool { return view.state.Waits(m.self.ID) })
}

// endMember replaces the message of a member by the last one, unless the member has renewed its
// lease.
func (s *store) endMember(ctx context.Context, id string, seq uint64) error {
	return s.retry(ctx, "end lease", func(ctx context.Context) error {
		msg := newMessage(s.memberKey(id), nil, minLease)
		msg.Header.Set(headerExpect, strconv.FormatUint(seq, 10))
		msg.Header.Set(headerLeft, "1")
		_, err := s.publish(ctx, msg)
		return err
	})
}

// Self implements [fleets.Membership].
func (m *membership) Self() task.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.self
}

// Members implements [fleets.Membership].
func (m *membership) Members() []task.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]task.Member, 0, len(m.members))
	for id, member := range m.members {
		if id == m.self.ID {
			member.Member = m.self
		}
		list = append(list, member.Member)
	}
	slices.SortFunc(list, func(a, b task.Member) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// Alive implements [fleets.Membership]. Like find, it does not rely on a read alone to report a
// member dead, because a server that was cut off and still acts as leader lacks new members.
func (m *membership) Alive(ctx context.Context, id string) (alive bool, err error) {
	if strings.ContainsAny(id, " \t\r\n.*>") || id == "" {
		return false, nil // no member has such an ID
	}
	s := m.s
	err = s.retry(ctx, "read member", func(ctx context.Context) error {
		var seq uint64
		msg, err := s.read(ctx, s.memberStream(), getRequest{Last: s.memberKey(id)})
		if err != nil {
			return err
		}
		if msg != nil {
			alive, seq = len(msg.Data) > 0, msg.Seq
		}
		if alive {
			return nil
		}
		dead, err := s.confirmLast(ctx, s.rosterSubject("_"), s.memberKey(id), seq)
		if err == nil && !dead {
			err = errOutdated
		}
		return err
	})
	return alive, err
}

// Expired implements [fleets.Membership].
func (m *membership) Expired() <-chan struct{} { return m.expired }

// Follow implements [fleets.Membership].
func (m *membership) Follow(id string, callbacks fleets.Follower) (stop func()) {
	if !validID(id) {
		return func() {}
	}
	subject := m.s.place(id).hints()
	own := &callbacks
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.followed[subject]
	if f == nil {
		sub, err := m.s.nc.ChanSubscribe(subject, m.messages)
		if err != nil {
			return func() {} // the connection is closed
		}
		f = &followed{id: id, sub: sub}
		m.followed[subject] = f
	}
	f.calls = append(f.calls, own)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		f.calls = slices.DeleteFunc(f.calls, func(each *fleets.Follower) bool { return each == own })
		if len(f.calls) == 0 && m.followed[subject] == f {
			delete(m.followed, subject)
			f.sub.Unsubscribe()
		}
	}
}

// Send implements [fleets.Membership]. The message must not be larger than the servers accept.
func (m *membership) Send(ctx context.Context, id string, data []byte) error {
	if !validID(id) {
		return task.ErrNotFound
	}
	msg := &nats.Msg{Subject: m.s.place(id).hints(), Data: data, Header: nats.Header{}}
	msg.Header.Set(headerStore, m.s.id)
	msg.Header.Set(headerMessage, "1")
	if err := m.s.nc.PublishMsg(msg); err != nil {
		return wrap("send message", err)
	}
	return nil
}

// Offer implements [fleets.Membership].
func (m *membership) Offer(ctx context.Context, member, id string) error {
	if err := m.s.nc.Publish(m.s.offerSubject(member), []byte(id)); err != nil {
		return wrap("offer task", err)
	}
	return nil
}

// Query implements [fleets.Membership]. The request and each response must not be larger than the
// servers accept. They use the subjects of offers, so that members need no further permissions.
func (m *membership) Query(ctx context.Context, request []byte) (map[string][]byte, error) {
	number := rand.Text()
	q := &query{waiting: map[string]bool{}, responses: map[string][]byte{}, done: make(chan struct{})}
	m.mu.Lock()
	for id := range m.members {
		q.waiting[id] = true
	}
	delete(q.waiting, m.self.ID)
	members := slices.Collect(maps.Keys(q.waiting))
	m.queries[number] = q
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.queries, number)
	}()
	for _, id := range members {
		if err := m.sendTo(id, headerQuery, number, request); err != nil {
			return nil, wrap("query members", err)
		}
	}
	if len(members) > 0 {
		select {
		case <-q.done:
		case <-ctx.Done():
		case <-m.expired:
		case <-m.lifetime.Done():
			if m.s.lifetime.Err() != nil {
				return nil, task.ErrClosed
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(q.responses), nil
}

// sendTo sends a request or a response of Query to a member. Header says which of them it is.
func (m *membership) sendTo(member, header, number string, data []byte) error {
	msg := &nats.Msg{Subject: m.s.offerSubject(member), Data: data, Header: nats.Header{}}
	msg.Header.Set(header, number)
	msg.Header.Set(headerMember, m.self.ID)
	return m.s.nc.PublishMsg(msg)
}

// processOffer processes an offer, or a message of Query.
func (m *membership) processOffer(msg *nats.Msg) {
	from := msg.Header.Get(headerMember)
	if number := msg.Header.Get(headerQuery); number != "" {
		var data []byte
		if m.events.Queried != nil {
			data = m.events.Queried(msg.Data)
		}
		m.sendTo(from, headerResponse, number, data) // the response may be lost
		return
	}
	if number := msg.Header.Get(headerResponse); number != "" {
		m.mu.Lock()
		defer m.mu.Unlock()
		if q := m.queries[number]; q != nil && q.waiting[from] {
			delete(q.waiting, from)
			q.responses[from] = msg.Data
			if len(q.waiting) == 0 {
				close(q.done)
			}
		}
		return
	}
	m.events.Offered(string(msg.Data))
}

// Drain implements [fleets.Membership].
func (m *membership) Drain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.self.Draining {
		m.self.Draining = true
		m.renewSoon()
	}
}

// Announce implements [fleets.Membership].
func (m *membership) Announce(missing []fleets.Missing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.self.Missing = missing
	m.renewSoon()
}

// renewSoon makes keep renew the lease at once, which announces what has changed.
func (m *membership) renewSoon() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Leave implements [fleets.Membership].
func (m *membership) Leave(ctx context.Context) error {
	m.leave()
	<-m.renewed
	select {
	case <-m.expired:
		return nil
	default:
	}
	m.unsubscribe()
	// The others take the message for the end at once. The server removes it soon.
	err := m.s.retry(ctx, "leave", func(ctx context.Context) error { return m.write(ctx, minLease, true) })
	if errors.Is(err, task.ErrConflict) {
		return nil // an earlier attempt has succeeded, or the lease has ended
	}
	return err
}

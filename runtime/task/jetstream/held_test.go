package jetstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/jetstream/internal/natstest"
)

// openHeld opens a store and joins its fleet with a lease of a minute.
func openHeld(t *testing.T, nc *nats.Conn, name string) (*store, *membership) {
	t.Helper()
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context(), js, Options{Name: name, Storage: natsjs.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	m, err := s.Join(t.Context(), task.Member{Lease: time.Minute}, fleets.Events{Departed: func() {}, Offered: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	return s, m.(*membership)
}

func createHeld(t *testing.T, s *store, id, member string) task.Record {
	t.Helper()
	r, err := s.Create(t.Context(), task.Record{ID: id, Status: mcp.TaskStatusWorking, Created: time.Now(), Claim: task.Claim{Member: member, Epoch: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func orphanIDs(t *testing.T, m *membership) (ids []string) {
	t.Helper()
	for r, err := range m.Orphans(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	slices.Sort(ids)
	return ids
}

// settled waits until the index of holders has n entries. Entries are removed in the background.
func settled(t *testing.T, s *store, entries, roster int) {
	t.Helper()
	natstest.Until(t, fmt.Sprintf("the index had %d entries, and the roster %d", entries, roster), func() bool {
		return Entries(t, &Store{streams: s}) == entries && Roster(t, &Store{streams: s}) == roster
	})
}

// A member that has ended has read a record, and has added its entry, but not replaced the record.
// Once a reader has removed the entry, the claim fails. When it is repeated, it has an entry again.
func TestLateClaimHasEntry(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s, m := openHeld(t, c.Connect(t), "S")
	createHeld(t, s, "x", m.self.ID)
	if err := s.enroll(t.Context(), "LATE"); err != nil {
		t.Fatal(err)
	}
	before, err := s.load(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	next := before.record
	next.Claim = task.Claim{Member: "LATE", Epoch: 2}
	next.Revision++
	held, err := s.hold(t.Context(), before, &next)
	if err != nil {
		t.Fatal(err)
	}
	claim, err := s.prepare(before, next, held, nil)
	if err != nil {
		t.Fatal(err)
	}
	settled(t, s, 2, 2)
	if got := orphanIDs(t, m); len(got) > 0 {
		t.Errorf("orphans are %v", got)
	}
	settled(t, s, 1, 2)
	if got := orphanIDs(t, m); len(got) > 0 {
		t.Errorf("orphans are %v", got)
	}
	settled(t, s, 1, 1)
	if _, err := s.write(t.Context(), claim, before.seq); !errors.Is(err, errMoved) {
		t.Fatalf("the claim has no entry, and returned %v", err)
	}
	// The holder notices nothing.
	held2 := before.record
	held2.StatusMessage = "by the holder"
	if held2, err = s.Update(t.Context(), held2); err != nil || held2.Revision != 2 {
		t.Errorf("update by the holder: revision %d, %v", held2.Revision, err)
	}
	// A claim that replaces a record which was replaced by an equal one adds its entry again.
	if err := s.enroll(t.Context(), "LATE"); err != nil {
		t.Fatal(err)
	}
	held2.Claim = next.Claim
	if _, err := s.Update(t.Context(), held2); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := orphanIDs(t, m); !slices.Equal(got, []string{"x"}) {
			t.Errorf("orphans are %v", got)
		}
	}
}

// The entry of a task that is being created stays while its member may still write the record.
func TestEntryOfUnwrittenRecordStays(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s, m := openHeld(t, c.Connect(t), "S")
	if err := s.enroll(t.Context(), "LATE"); err != nil {
		t.Fatal(err)
	}
	r := task.Record{ID: "x", Status: mcp.TaskStatusWorking, Claim: task.Claim{Member: "LATE", Epoch: 1}}
	if _, err := s.addHeld(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := orphanIDs(t, m); len(got) > 0 {
			t.Errorf("orphans are %v", got)
		}
	}
	settled(t, s, 1, 2)
	createHeld(t, s, "x", "LATE")
	if got := orphanIDs(t, m); !slices.Equal(got, []string{"x"}) {
		t.Errorf("orphans are %v", got)
	}
}

// Lost entries of the index of holders are repaired.
func TestRemoveOrphansRepairsIndexOfHolders(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s, m := openHeld(t, c.Connect(t), "S")
	createHeld(t, s, "x", "LOST")
	r, err := s.load(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	s.discard(s.place("x").stream, r.held)
	settled(t, s, 0, 1)
	if got := orphanIDs(t, m); len(got) > 0 {
		t.Errorf("orphans are %v", got)
	}
	if _, err := s.removeOrphans(t.Context(), 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := orphanIDs(t, m); !slices.Equal(got, []string{"x"}) {
		t.Errorf("orphans are %v", got)
	}
}

// A damaged record does not hide other orphans.
func TestOrphansBesideDamagedRecord(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s, m := openHeld(t, c.Connect(t), "S")
	for _, id := range []string{"a", "b", "c"} {
		createHeld(t, s, id, "")
	}
	if _, err := s.nc.RequestWithContext(natstest.Context(t), s.place("b").record, []byte("damaged")); err != nil {
		t.Fatal(err)
	}
	var ids []string
	var failed error
	for r, err := range m.Orphans(t.Context()) {
		if err != nil {
			failed = err
			continue
		}
		ids = append(ids, r.ID)
	}
	if slices.Sort(ids); !slices.Equal(ids, []string{"a", "c"}) || !errors.Is(failed, task.ErrCorrupt) {
		t.Errorf("orphans are %v, %v", ids, failed)
	}
}

// Members leave the record of a later version to members of that version, and find the other
// orphans.
func TestOrphansBesideRecordOfLaterVersion(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s, m := openHeld(t, c.Connect(t), "S")
	for _, id := range []string{"a", "b", "c"} {
		createHeld(t, s, id, "")
	}
	at := s.place("b")
	msg, err := s.read(t.Context(), at.stream, getRequest{Last: at.record})
	if err != nil {
		t.Fatal(err)
	}
	msg.Data[4] = formatSignals + 1
	binary.LittleEndian.PutUint32(msg.Data, crc32.Update(crc32.Checksum([]byte(at.record), castagnoli), castagnoli, msg.Data[4:]))
	if _, err := s.publish(t.Context(), newMessage(at.record, msg.Data, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), "b"); err == nil || errors.Is(err, task.ErrCorrupt) || errors.Is(err, task.ErrNotFound) {
		t.Errorf("the record can be read: %v", err)
	}
	if got := orphanIDs(t, m); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("orphans are %v", got)
	}
}

// Subjects are listed completely although others are removed between two pages.
func TestListWhileSubjectsAreRemoved(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc := c.Connect(t)
	s, _ := openHeld(t, nc, "S")
	page := 0
	pages := []string{
		`{"total":4,"state":{"subjects":{"a":1,"b":1}}}`, `{"total":3,"state":{"subjects":{"d":1}}}`, // "a" was removed
		`{"total":3,"state":{"subjects":{"b":1,"c":1}}}`, `{"total":3,"state":{"subjects":{"d":1}}}`,
	}
	c.Intercept("$JS.API.STREAM.INFO.S-0", func(m *nats.Msg, _ func()) {
		m.Respond([]byte(pages[page]))
		page++
	})
	got, err := s.list(t.Context(), "S-0", "*")
	if slices.Sort(got); err != nil || !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("listed %v, %v", got, err)
	}
}

// silence makes a member seem not to have been announced for two leases of a minute.
func silence(t *testing.T, m *membership, id string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	member, listed := m.members[id]
	if !listed {
		t.Fatal("the member is not listed")
	}
	member.Heard = member.Heard.Add(-2 * time.Minute)
	m.members[id] = member
}

// A member and a waiter learn of changes of a task although the servers lose the announcements.
func TestLostAnnouncementsOfTask(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	other, _ := openHeld(t, c.Connect(t), "S")
	nc, link := c.ConnectLinked(t)
	s, m := openHeld(t, nc, "S")
	ttl := time.Minute
	r, err := other.Create(t.Context(), task.Record{ID: "x", Status: mcp.TaskStatusWorking, Created: time.Now(), TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	changed := make(chan struct{}, 1000)
	defer m.Follow("x", fleets.Follower{Changed: func() { changed <- struct{}{} }})()
	link.Drop(func(subject string) bool { return subject == s.place("x").hints() })
	// The store may look, too, if the test takes long.
	look := func(what string, changes int) {
		t.Helper()
		s.recheckTask("x")
		natstest.Until(t, what+", the change was reported", func() bool { return len(changed) >= changes })
		if s.recheckTask("x"); len(changed) != changes {
			t.Errorf("%s: %d changes are reported", what, len(changed))
		}
	}
	look("before the first change, which may be any", 1)
	for revision := range uint64(2) {
		woken := make(chan error, 1)
		go func() { // ends with the change
			_, err := s.Wait(t.Context(), "x", r.Revision)
			woken <- err
		}()
		natstest.Until(t, "the call blocked", func() bool { return s.hub.Len() == 1 })
		if ids := s.watchedIDs(); !slices.Equal(ids, []string{"x"}) {
			t.Errorf("looks for changes of %q", ids)
		}
		if revision == 0 {
			if r, err = other.Update(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			look("after the change", 2)
			if err := natstest.Receive(t, "the waiter returned", woken); err != nil {
				t.Error(err)
			}
			continue
		}
		if dropped, _, err := other.Sweep(t.Context(), r.Expires().Add(time.Second), 10); err != nil || len(dropped) != 1 {
			t.Errorf("dropped %v, %v", dropped, err)
		}
		s.recheckTask("x")
		natstest.Until(t, "the drop was reported", func() bool { return len(changed) >= 3 })
		if err := natstest.Receive(t, "the waiter returned", woken); !errors.Is(err, task.ErrNotFound) {
			t.Error(err)
		}
	}
}

// A waiter and a member learn of a change although a change with a greater sequence was announced
// before, which the servers have lost when they were restarted.
func TestWaitAfterLostWrites(t *testing.T) {
	t.Parallel()
	s, m := openHeld(t, natstest.Run(t, 1).Connect(t), "S")
	r, err := s.Create(t.Context(), task.Record{ID: "x", Status: mcp.TaskStatusWorking})
	if err != nil {
		t.Fatal(err)
	}
	woken := make(chan error, 1)
	go func() { // ends with the change
		_, err := s.Wait(t.Context(), "x", r.Revision)
		woken <- err
	}()
	natstest.Until(t, "the call blocked", func() bool { return s.hub.Len() == 1 })
	defer m.Follow("x", fleets.Follower{Changed: func() {}})()
	hints := s.place("x").hints()
	s.changed(hints, 1000)
	m.found(hints, 1000)
	m.forgetAnnounced()
	s.readAll(true)
	other, _ := openHeld(t, s.nc, "S")
	if _, err := other.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := natstest.Receive(t, "the waiter returned", woken); err != nil {
		t.Error(err)
	}
}

// The end of a member is noticed although the servers lose the announcement, and so are other
// changes that may have been lost with it.
func TestLostAnnouncements(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	other, d := openHeld(t, c.Connect(t), "S")
	nc, link := c.ConnectLinked(t)
	s, m := openHeld(t, nc, "S")
	departed := make(chan struct{}, 1000)
	m.events.Departed = func() { departed <- struct{}{} }
	r := createHeld(t, other, "x", "")
	changed := make(chan struct{}, 1000)
	defer m.Follow("x", fleets.Follower{Changed: func() { changed <- struct{}{} }})()
	link.Drop(func(subject string) bool {
		return subject == s.place("x").hints() || subject == s.memberHint(d.self.ID)
	})
	if m.checkSilent(); len(departed) > 0 {
		t.Error("a member that was announced is looked up")
	}
	if _, err := other.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := d.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	silence(t, m, d.self.ID)
	if m.checkSilent() {
		t.Error("the loss of announcements was not noticed")
	}
	if !m.missed() || len(changed) != 1 || len(departed) != 1 {
		t.Errorf("%d changes and %d departures are reported while the member is alive", len(changed), len(departed))
	}
	if err := d.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	silence(t, m, d.self.ID)
	if !m.checkSilent() || len(departed) != 2 || len(m.Members()) != 1 {
		t.Errorf("%d departures are reported, members are %v", len(departed), m.Members())
	}
}

// A replica that lags behind does not hide a renewal that was announced.
func TestMembersOfReplicaThatLags(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	_, m := openHeld(t, c.Connect(t), "S")
	_, other := openHeld(t, c.Connect(t), "S")
	id := other.self.ID
	natstest.Until(t, "the member was listed", func() bool { return len(m.Members()) == 2 })
	m.mu.Lock()
	announced := m.members[id]
	announced.seq += 10
	announced.Draining = true
	m.members[id] = announced
	m.mu.Unlock()
	if !m.missed() {
		t.Fatal("the members cannot be read")
	}
	for _, member := range m.Members() {
		if draining := member.ID == id; member.Draining != draining {
			t.Errorf("%+v", member)
		}
	}
	if len(m.Members()) != 2 {
		t.Errorf("members %+v", m.Members())
	}
}

// addMember writes the message of a member that does not renew it, and that the server keeps for an
// hour, as if its clock was set back.
func addMember(t *testing.T, s *store, id string) {
	t.Helper()
	data, err := encodeMember(task.Member{Name: id, Lease: time.Minute})
	if err == nil {
		_, err = s.publish(t.Context(), newMessage(s.memberKey(id), data, time.Hour))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A member that does not renew its lease ends for all others, whatever the clocks of the servers
// say.
func TestMembersEndSilentMember(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s, m := openHeld(t, c.Connect(t), "S")
	_, other := openHeld(t, c.Connect(t), "S")
	departed := make(chan struct{}, 1000)
	other.events.Departed = func() { departed <- struct{}{} }
	addMember(t, s, "SILENT")
	for _, each := range []*membership{m, other} { // by its announcement, which comes once
		natstest.Until(t, "the member was listed", func() bool { return len(each.Members()) == 3 })
	}
	if m.checkSilent(); len(m.Members()) != 3 {
		t.Fatalf("members are %v", m.Members())
	}
	silence(t, m, "SILENT")
	silence(t, m, other.self.ID)
	if err := other.renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		m.mu.Lock()
		heard := m.members[other.self.ID].Heard
		m.mu.Unlock()
		if time.Since(heard) < time.Minute {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the renewal was not announced")
		}
	}
	if !m.missed() || !m.checkSilent() || len(m.Members()) != 2 { // the members are not new
		t.Errorf("members are %v", m.Members())
	}
	for len(other.Members()) > 2 {
		<-departed
	}
	if alive, err := other.Alive(t.Context(), "SILENT"); alive || err != nil {
		t.Errorf("alive: %v, %v", alive, err)
	}
}

// Query takes one response from each member that it has asked, and forgets the request.
func TestQueryTakesOneResponseOfEachMember(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc := c.Connect(t)
	s, m := openHeld(t, nc, "S")
	requests, err := nc.SubscribeSync(s.offerSubject("A"))
	if err != nil {
		t.Fatal(err)
	}
	addMember(t, s, "A")
	natstest.Until(t, "the member was listed", func() bool { return len(m.Members()) == 2 })
	responses := make(chan map[string][]byte, 1)
	go func() { // ends with Query
		got, err := m.Query(natstest.Context(t), []byte("request"))
		if err != nil {
			t.Error(err)
		}
		responses <- got
	}()
	request, err := requests.NextMsgWithContext(natstest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]string{{"OTHER", "other"}, {"OTHER", "again"}, {m.self.ID, "own"}, {"A", "first"}, {"A", "second"}} {
		msg := nats.NewMsg(s.offerSubject(m.self.ID))
		msg.Header.Set(headerResponse, request.Header.Get(headerQuery))
		msg.Header.Set(headerMember, r[0])
		msg.Data = []byte(r[1])
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	if got := natstest.Receive(t, "Query returned", responses); len(got) != 1 || string(got["A"]) != "first" {
		t.Errorf("got %q", got)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.queries) > 0 {
		t.Errorf("%d requests are left", len(m.queries))
	}
}

// A member lists itself with the time of its latest renewal.
func TestMemberHearsOfItself(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	_, m := openHeld(t, c.Connect(t), "S")
	before := m.Members()[0].Heard
	m.Drain() // renews
	natstest.Until(t, "the member has renewed its lease", func() bool { return m.Members()[0].Heard.After(before) })
}

// A member of an unknown format does not end before the servers end its lease, which may be longer
// than those of the others.
func TestUnknownMemberIsNotEnded(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s, m := openHeld(t, c.Connect(t), "S")
	for i, data := range []string{"?", `{"name":"no lease"}`, `{"leaseMs":-1}`} {
		id := fmt.Sprint("NEW", i)
		if _, err := s.publish(t.Context(), newMessage(s.memberKey(id), []byte(data), time.Hour)); err != nil {
			t.Fatal(err)
		}
		natstest.Until(t, "the member was listed", func() bool { return len(m.Members()) == i+2 })
		silence(t, m, id)
		m.checkSilent()
		if alive, err := m.Alive(t.Context(), id); !alive || err != nil || len(m.Members()) != i+2 {
			t.Errorf("%s: alive: %t, %v; members %v", data, alive, err, m.Members())
		}
	}
}

// The number of requests that read all members does not depend on their number.
func TestMembersAreReadAtOnce(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc := c.Connect(t)
	s, m := openHeld(t, nc, "S")
	const n = portion / 2
	for i := range n {
		addMember(t, s, fmt.Sprint("M", i))
	}
	if err := s.endMember(t.Context(), "M0", 0); !hasCode(err, codeWrongSequence) {
		t.Errorf("ended a member that has renewed its lease: %v", err)
	}
	for len(m.Members()) <= n { // each was announced, and read
		time.Sleep(time.Millisecond)
	}
	before := nc.Stats().OutMsgs
	if err := m.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sent := nc.Stats().OutMsgs - before; sent > 5 || len(m.Members()) != n+1 {
		t.Errorf("%d requests, %d members", sent, len(m.Members()))
	}
}

// A member that cannot read the other members reads them again, and then reports that changes may
// have been missed.
func TestMissedIsRepeated(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	nc := c.Connect(t)
	s, m := openHeld(t, nc, "S")
	changed := make(chan struct{}, 1000)
	defer m.Follow("x", fleets.Follower{Changed: func() { changed <- struct{}{} }})()
	c.Intercept(s.api+"STREAM.INFO."+s.memberStream(), func(m *nats.Msg, end func()) {
		end()
		m.Respond([]byte(`{"error":{"code":500,"err_code":10049,"description":"failure"}}`))
	})
	if err := nc.Publish(electionPrefix+s.memberStream(), nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Error("nothing was reported")
	}
}

// A member that waits for a permit gets it although the servers lose the announcement.
func TestLostAnnouncementOfQuota(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	_, other := openHeld(t, c.Connect(t), "S")
	nc, link := c.ConnectLinked(t)
	s, m := openHeld(t, nc, "S")
	shared := make(chan string, 1000)
	m.events.Shared = func(name string) { shared <- name }
	other.events.Shared = func(string) {}
	hint := s.quotaHint(quotaDigest("q"))
	link.Drop(func(subject string) bool { return subject == hint })
	for _, each := range []*membership{other, m} {
		if err := each.Reserve(t.Context(), "q", fleets.Reservation{Want: 1, Max: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Reserve(t.Context(), "q", fleets.Reservation{Max: 1}); err != nil {
		t.Fatal(err)
	}
	if got := m.Share("q").Granted; got != 0 {
		t.Fatalf("%d permits are known", got)
	}
	if !m.checkSilent() || len(shared) != 1 || m.Share("q").Granted != 1 {
		t.Errorf("%d reports, share %+v", len(shared), m.Share("q"))
	}
	if m.checkSilent(); len(shared) != 1 {
		t.Error("a quota was read that the member does not wait for")
	}
}

// A member whose message has expired ends at once, not at its next renewal.
func TestMarkerEndsMembership(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s, m := openHeld(t, c.Connect(t), "S")
	marker := nats.NewMsg(s.memberHint(m.self.ID))
	marker.Header.Set(headerMarker, "MaxAge")
	if err := s.nc.PublishMsg(marker); err != nil {
		t.Fatal(err)
	}
	natstest.Receive(t, "the membership ended", m.Expired())
}

// A member whose index is not empty stays on the roster, even if a server has said that it is
// empty.
func TestConfirmEmpty(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 3)
	s, m := openHeld(t, c.Connect(t), "S")
	if err := s.confirmEmpty(t.Context(), m.self.ID); err != nil {
		t.Error(err)
	}
	createHeld(t, s, "x", m.self.ID)
	for range 2 {
		if err := s.confirmEmpty(t.Context(), m.self.ID); !errors.Is(err, errOutdated) {
			t.Errorf("got %v", err)
		}
		if err := s.confirmEmpty(t.Context(), "OTHER"); err != nil {
			t.Error(err)
		}
	}
}

// Members that confirm at once that the index of a departed member is empty do not exclude each
// other.
func TestMembersConfirmEmptyAtOnce(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 3)
	js, err := natsjs.New(c.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context(), js, Options{Name: "S", Replicas: 3, Storage: natsjs.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const n = 8
	confirmed := make(chan error)
	for range n {
		go func() { confirmed <- s.confirmEmpty(natstest.Context(t), "OTHER") }()
	}
	for range n {
		if err := natstest.Receive(t, "the index was confirmed", confirmed); err != nil {
			t.Error(err)
		}
	}
}

// The servers keep all messages of an unfinished durable task for as long as it may have to be
// undone after its expiry, also those that were written before it has registered an undo. Those of
// the outcome they keep for a day.
func TestServersKeepTaskThatMustBeUndone(t *testing.T) {
	t.Parallel()
	c := natstest.Run(t, 1)
	s, m := openHeld(t, c.Connect(t), "S")
	const ttl = time.Hour
	r, err := s.Create(t.Context(), task.Record{
		ID: "x", Owner: "o", Status: mcp.TaskStatusWorking, Created: time.Now(), TTL: ttl, Restartable: true,
		Durable: &task.Durable{}, Params: make([]byte, 2*maxInlineBody),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []task.Entry{{Key: "step", Result: make([]byte, 2*maxTail)}, {Kind: taskrules.KindUndo, Key: "undo"}} {
		d := *r.Durable
		d.Recorded++
		d.RecordedBytes += int64(len(e.Result))
		d.Entries = []task.Entry{e}
		if e.Kind == taskrules.KindUndo {
			d.Undos++
		}
		r.Durable, r.Claim = &d, task.Claim{Member: m.self.ID, Epoch: 1}
		if r, err = s.Update(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	settled(t, s, 1, 1)
	lives := lifetimes(t, c.JetStream(t), "S-0", "S-0-index")
	for subject, life := range lives {
		if least := ttl + taskrules.MaxRetained; life < least || life > least+2*serverMargin {
			t.Errorf("the servers keep %s for %v, want at least %v", subject, life, least)
		}
	}
	if len(lives) < 6 { // of the record, its holder, its owner, its expiry, the params and the step
		t.Errorf("%d messages: %v", len(lives), lives)
	}
	d := *r.Durable
	d.Recorded, d.RecordedBytes, d.Undos = 0, 0, 0
	r.Status, r.Params, r.Result, r.Durable = mcp.TaskStatusCompleted, nil, []byte(`{}`), &d
	if r, err = s.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if life := lifetimes(t, c.JetStream(t), "S-0")[s.place("x").record]; life < ttl || life > ttl+2*serverMargin {
		t.Errorf("the servers keep the outcome for %v", life)
	}
}

// lifetimes returns how long the servers keep the messages of streams, by their subjects. It leaves
// out those without a limit or with that of a tombstone.
func lifetimes(t *testing.T, js natsjs.JetStream, streams ...string) map[string]time.Duration {
	t.Helper()
	lives := map[string]time.Duration{}
	for _, name := range streams {
		stream, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context(), natsjs.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		for subject := range info.State.Subjects {
			m, err := stream.GetLastMsgForSubject(t.Context(), subject)
			if err != nil {
				continue // removed meanwhile
			}
			if seconds, err := strconv.Atoi(m.Header.Get(headerTTL)); err == nil && seconds > int(tombstone/time.Second) {
				lives[subject] = time.Duration(seconds) * time.Second
			}
		}
	}
	return lives
}

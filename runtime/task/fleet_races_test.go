package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
	"github.com/mcpwire/mcpwire/runtime/internal/memory"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// racingStore is a store of a member that calls hooks. As fleets.Membership demands, it reports a
// write for which it has returned an error.
type racingStore struct {
	*memory.FleetStore
	ahead   atomic.Int64 // what its clock is ahead of that of this process, in nanoseconds
	history *history     // of the fleet; needed for hooks.lag
	// announced holds the time of the latest change that the followers of a task know, by task id.
	// The data that is read is not older.
	announced sync.Map

	mu       sync.Mutex
	hooks    hooks
	last     fleets.Membership[task.Member, task.Record] // of the latest Join
	followed map[*fleets.Follower]string                 // by call of Follow, the id of the task
}

// hooks are functions that are called where another member may be faster, or where the store may
// fail. Each may be nil.
type hooks struct {
	afterOrphan  func(r task.Record) // with each brief
	noOrphans    bool                // Orphans yields nothing
	afterGet     func(r task.Record) error
	outdated     func() *task.Record  // what Get returns; nil for the present record
	lag          func() time.Duration // how old the data is that Get and Journal return
	beforeCreate func()
	beforeUpdate func()
	afterJoin    func(e fleets.Events) // before Join returns
	offer        func() error
	announce     func()
	reserve      func() error // after the quota was written
	afterUpdate  func(r task.Record) error
}

func (s *racingStore) set(h hooks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks = h
}

func (s *racingStore) get() hooks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hooks
}

func (s *racingStore) latest() fleets.Membership[task.Member, task.Record] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *racingStore) Now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }

func (s *racingStore) Get(ctx context.Context, id string) (task.Record, error) {
	if f := s.get().outdated; f != nil {
		if r := f(); r != nil {
			return *r, nil
		}
	}
	r, err := s.FleetStore.Get(ctx, id)
	if f := s.get().lag; f != nil && err == nil {
		if v := s.history.at(id, s.ago(id, f())); v != nil {
			r = v.record
		}
	}
	if f := s.get().afterGet; f != nil && err == nil {
		err = f(r)
	}
	return r, err
}

func (s *racingStore) Create(ctx context.Context, r task.Record) (task.Record, error) {
	if f := s.get().beforeCreate; f != nil {
		f()
	}
	stored, err := s.FleetStore.Create(ctx, r)
	s.history.add(s.FleetStore, stored, err)
	return stored, err
}

func (s *racingStore) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	entries, err := s.FleetStore.Journal(ctx, id)
	if f := s.get().lag; f != nil && err == nil {
		if v := s.history.at(id, s.ago(id, f())); v != nil {
			entries = v.journal
		}
	}
	return entries, err
}

func (s *racingStore) Update(ctx context.Context, r task.Record) (task.Record, error) {
	if f := s.get().beforeUpdate; f != nil {
		f()
	}
	stored, err := s.FleetStore.Update(ctx, r)
	s.history.add(s.FleetStore, stored, err)
	if f := s.get().afterUpdate; f != nil && err == nil {
		if err = f(r); err != nil {
			s.report(r.ID)
		}
	}
	return stored, err
}

// history holds the earlier versions of the tasks of a fleet. A nil history is empty.
type history struct {
	mu       sync.Mutex
	versions map[string][]version // by task id, in ascending order of revisions
}

// version is what a store held of a task since a time.
type version struct {
	since   time.Time
	record  task.Record
	journal []task.Entry
}

// add adds a record that was stored, unless err is set.
func (h *history) add(s *memory.FleetStore, r task.Record, err error) {
	if h == nil || err != nil {
		return
	}
	r, err = s.Get(context.Background(), r.ID)
	if err != nil {
		return
	}
	journal, err := s.Journal(context.Background(), r.ID)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.versions == nil {
		h.versions = map[string][]version{}
	}
	list := h.versions[r.ID]
	if n := len(list); n == 0 || list[n-1].record.Revision < r.Revision {
		h.versions[r.ID] = append(list, version{time.Now(), r, journal})
	}
}

// at returns what was stored some time ago, or first. It returns nil if there is nothing.
func (h *history) at(id string, ago time.Duration) *version {
	if ago == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.versions[id]
	for i := len(list) - 1; i >= 0; i-- {
		if i == 0 || !list[i].since.After(time.Now().Add(-ago)) {
			return &list[i]
		}
	}
	return nil
}

// ago limits how old the data of a task is.
func (s *racingStore) ago(id string, d time.Duration) time.Duration {
	if at, ok := s.announced.Load(id); ok {
		return min(d, time.Since(at.(time.Time)))
	}
	return d
}

// maxLag is how old the data may be that a racingStore with a history returns.
const maxLag = 4 * time.Second

// reportAll reports a change of each task to its followers through this store.
func (s *racingStore) reportAll() {
	s.mu.Lock()
	var calls []func()
	for f := range s.followed {
		calls = append(calls, f.Changed)
	}
	s.mu.Unlock()
	for _, changed := range calls {
		changed()
	}
}

// report reports a change of a task to its followers through this store.
func (s *racingStore) report(id string) {
	s.mu.Lock()
	var calls []func()
	for f, followed := range s.followed {
		if followed == id {
			calls = append(calls, f.Changed)
		}
	}
	s.mu.Unlock()
	for _, changed := range calls {
		changed()
	}
}

func (s *racingStore) Join(ctx context.Context, m task.Member, e fleets.Events) (fleets.Membership[task.Member, task.Record], error) {
	membership, err := s.FleetStore.Join(ctx, m, e)
	if f := s.get().afterJoin; f != nil {
		f(e)
	}
	if s.history != nil { // reads before and after the first Changed may be outdated
		time.AfterFunc(maxLag, s.reportAll)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = membership
	return racingMembership{membership, s}, err
}

type racingMembership struct {
	fleets.Membership[task.Member, task.Record]
	store *racingStore
}

func (m racingMembership) Orphans(ctx context.Context) iter.Seq2[task.Record, error] {
	return func(yield func(task.Record, error) bool) {
		for r, err := range m.Membership.Orphans(ctx) {
			if m.store.get().noOrphans {
				return
			}
			if f := m.store.get().afterOrphan; f != nil && err == nil {
				f(r)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (m racingMembership) Follow(id string, f fleets.Follower) (stop func()) {
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followed == nil {
		s.followed = map[*fleets.Follower]string{}
	}
	s.followed[&f] = id
	if changed := f.Changed; s.history != nil {
		f.Changed = func() {
			s.announced.Store(id, time.Now())
			changed()
		}
	}
	end := m.Membership.Follow(id, f)
	return func() {
		end()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.followed, &f)
	}
}

func (m racingMembership) Offer(ctx context.Context, member, id string) error {
	if f := m.store.get().offer; f != nil {
		if err := f(); err != nil {
			return err
		}
	}
	return m.Membership.Offer(ctx, member, id)
}

func (m racingMembership) Announce(missing []fleets.Missing) {
	if f := m.store.get().announce; f != nil {
		f()
	}
	m.Membership.Announce(missing)
}

func (m racingMembership) Reserve(ctx context.Context, quota string, r fleets.Reservation) error {
	err := m.Membership.Reserve(ctx, quota, r)
	if f := m.store.get().reserve; f != nil && err == nil {
		err = f()
	}
	return err
}

// joinRacing is join with a racingStore.
func joinRacing(t *testing.T, f *memory.Fleet, cfg task.Options, work task.Work) (*member, *racingStore) {
	t.Helper()
	m := &member{store: f.Store(), work: work}
	store := &racingStore{FleetStore: m.store}
	cfg.Store = store
	cfg.Recovery.Recover = func(task.Record) task.Work { return m.run }
	m.Manager = newManager(t, cfg)
	synctest.Wait()
	return m, store
}

// once returns a function that calls f the first time.
func once(f func()) func() {
	var called atomic.Bool
	return func() {
		if called.CompareAndSwap(false, true) {
			f()
		}
	}
}

// claimAsDead claims a task as a member that has ended.
func claimAsDead(t *testing.T, f *memory.Fleet, id string) {
	t.Helper()
	s := f.Store()
	r, err := s.Get(t.Context(), id)
	if err == nil {
		r.Claim = task.Claim{Member: "dead", Epoch: r.Claim.Epoch + 1}
		_, err = s.Update(t.Context(), r)
	}
	if err != nil {
		t.Error(err)
	}
}

// A member that looks for orphans does not take a task that a living member has claimed since.
func TestTakeoverSparesLivingMember(t *testing.T) {
	for name, at := range map[string]func(claim func()) hooks{
		"before the record is read": func(claim func()) hooks { return hooks{afterOrphan: func(task.Record) { claim() }} },
		"after the record is read": func(claim func()) hooks {
			return hooks{afterGet: func(task.Record) error { claim(); return nil }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				a := join(t, f, task.Options{}, untilDone)
				id := a.create(t, nil)
				b := join(t, f, task.Options{Member: task.Member{Tools: []string{"other"}}}, untilDone)
				c, store := joinRacing(t, f, task.Options{}, untilDone)
				store.set(at(once(func() {
					if err := b.Internals(boundary.Caller{}).TakeOver(t.Context(), id); err != nil {
						t.Error(err)
					}
				})))
				a.cut(t)
				time.Sleep(5 * time.Minute)
				if r := c.record(t, id); r.Claim.Epoch != 2 || b.runs.Load() != 1 || c.runs.Load() != 0 {
					t.Errorf("claim %v, %d and %d runs", r.Claim, b.runs.Load(), c.runs.Load())
				}
			})
		})
	}
}

// A member whose lease has ended claims a task before it notices, and dies: another member that
// wanted to claim the task at the same time looks again.
func TestTakeoverIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := join(t, f, task.Options{}, untilDone)
		id := a.create(t, nil)
		b, store := joinRacing(t, f, task.Options{}, untilDone)
		claim := once(func() { claimAsDead(t, f, id) })
		store.set(hooks{afterOrphan: func(task.Record) { claim() }})
		a.cut(t)
		time.Sleep(5 * time.Minute)
		if r := b.record(t, id); r.Claim.Epoch != 3 || b.runs.Load() != 1 {
			t.Errorf("claim %v, %d runs", r.Claim, b.runs.Load())
		}
	})
}

// A member that has ended claims a task of a living one, and dies: the living one takes it back,
// even if it is not among the orphans.
func TestTaskIsTakenBackFromDeadMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, store := joinRacing(t, f, task.Options{}, untilDone)
		store.set(hooks{noOrphans: true})
		id := a.create(t, nil)
		synctest.Wait()
		claimAsDead(t, f, id)
		time.Sleep(5 * time.Minute)
		if r := a.record(t, id); r.Claim.Epoch != 3 || a.runs.Load() != 2 {
			t.Errorf("claim %v, %d runs", r.Claim, a.runs.Load())
		}
	})
}

// A task is taken over although the first look after the end of its holder finds no orphans, as if
// a server answered that is cut off from the other servers.
func TestOrphanMissedByFirstLookIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := join(t, f, task.Options{}, untilDone)
		b, store := joinRacing(t, f, task.Options{}, untilDone)
		time.Sleep(5 * time.Minute) // b has looked after it has joined
		id := a.create(t, nil)
		synctest.Wait()
		store.set(hooks{noOrphans: true})
		a.cut(t)
		time.Sleep(task.DefaultLease + time.Second)
		synctest.Wait()
		store.set(hooks{})
		if n := b.runs.Load(); n != 0 {
			t.Fatalf("%d runs after the first look", n)
		}
		time.Sleep(task.DefaultLease)
		synctest.Wait()
		if r := b.record(t, id); r.Claim.Epoch != 2 || b.runs.Load() != 1 {
			t.Errorf("claim %v, %d runs", r.Claim, b.runs.Load())
		}
	})
}

// A member has read a record before it has claimed the task, and looks at it afterwards.
func TestOldRecordDoesNotEndNewRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := join(t, f, task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			time.Sleep(time.Minute)
			if err := run.SetStatusMessage(ctx, "slow"); err != nil {
				return nil, err
			}
			return untilDone(ctx, run)
		})
		id := a.create(t, nil)
		proceed := make(chan struct{})
		b, store := joinRacing(t, f, task.Options{}, steps(proceed))
		w, _, err := b.Internals(boundary.Caller{}).Watch(t.Context(), "alice", []string{id}, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		read := make(chan struct{})
		hold := once(func() { <-read })
		store.set(hooks{afterGet: func(r task.Record) error {
			if r.StatusMessage == "slow" {
				hold()
			}
			return nil
		}})
		time.Sleep(2 * time.Minute) // the change is being read
		a.cut(t)
		time.Sleep(time.Minute)
		if r := b.record(t, id); r.Claim.Epoch != 2 || b.runs.Load() != 1 {
			t.Fatalf("claim %v, %d runs", r.Claim, b.runs.Load())
		}
		close(read)
		synctest.Wait()
		close(proceed)
		if got := found(t, result(t, b.Manager, id)); got != "0" || b.runs.Load() != 1 {
			t.Errorf("found %s entries in run %d", got, b.runs.Load())
		}
	})
}

// Create does not acknowledge a task that is stored after the lease of its member has ended: other
// members may have looked for it before.
func TestCreateFailsAfterLease(t *testing.T) {
	for name, tools := range map[string][]string{"in a worker": nil, "in a front end": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				m, store := joinRacing(t, f, task.Options{Member: task.Member{Tools: tools}}, untilDone)
				store.set(hooks{beforeCreate: func() { // the member loses its lease and joins again
					m.store.Cut()
					time.Sleep(time.Minute)
					m.store.Heal()
					time.Sleep(time.Minute)
				}})
				q := task.Request{Principal: "alice", Restartable: true, Work: m.run, Name: "tool"}
				if _, err := m.Create(t.Context(), q); err == nil {
					t.Error("the task is acknowledged")
				}
				time.Sleep(time.Minute)
				for r, err := range m.store.Scan(t.Context()) {
					if err != nil || !task.Terminal(r.Status) {
						t.Errorf("left: %s, %v", r.Status, err)
					}
				}
				if m.Stats().Running != 0 || m.runs.Load() != 0 {
					t.Errorf("%d runs", m.runs.Load())
				}
			})
		})
	}
}

// A task whose offer is lost is offered again.
func TestOfferIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		front, store := joinRacing(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
		worker := join(t, f, task.Options{}, returns(`{"found":1}`))
		time.Sleep(time.Hour) // the worker looks for tasks only after it has joined
		var offers atomic.Int64
		store.set(hooks{offer: func() error {
			if offers.Add(1) < 3 {
				return errors.New("not delivered")
			}
			return nil
		}})
		id := front.create(t, nil)
		if got := found(t, result(t, front.Manager, id)); got != "1" || worker.runs.Load() != 1 || offers.Load() != 3 {
			t.Errorf("%s after %d offers", got, offers.Load())
		}
		time.Sleep(time.Hour)
		if offers.Load() != 3 {
			t.Errorf("%d offers", offers.Load())
		}
	})
}

// Work whose member cannot reach the store for a while records each step once, and its input
// request is answered. The store may have written although it has reported a failure.
func TestWorkOutlastsFailuresOfStore(t *testing.T) {
	work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
		for _, key := range []string{"a", "b"} {
			if err := run.Record(ctx, task.Entry{Key: key, Occurrence: 1}); err != nil {
				return nil, err
			}
			if _, err := ask(ctx, run, key); err != nil {
				return nil, err
			}
		}
		entries, _, err := run.Journal(ctx)
		entries = slices.DeleteFunc(slices.Clone(entries), func(e task.Entry) bool { return e.Kind == taskrules.KindAnswer })
		return raw(fmt.Sprintf(`{"found":%d}`, len(entries))), err
	}
	broken := errors.New("connection broken")
	for name, fail := range map[string]func(m *member, s *racingStore){
		"cut off": func(m *member, s *racingStore) {
			m.store.Cut()
			time.AfterFunc(10*time.Second, m.store.Heal)
		},
		"cut off during a wait": func(m *member, s *racingStore) {
			time.AfterFunc(time.Second, m.store.Cut)
			time.AfterFunc(11*time.Second, m.store.Heal)
		},
		"an acknowledgement and the read after it lost": func(m *member, s *racingStore) {
			var failures atomic.Int64
			s.set(hooks{
				afterUpdate: func(r task.Record) error {
					if len(r.Durable.Entries) > 0 && failures.CompareAndSwap(0, 1) {
						return broken
					}
					return nil
				},
				afterGet: func(task.Record) error {
					if failures.CompareAndSwap(1, 2) {
						return broken
					}
					return nil
				},
			})
		},
		"many reads and acknowledgements lost": func(m *member, s *racingStore) {
			var n atomic.Int64
			flaky := func(task.Record) error {
				if n.Add(1)%3 == 0 {
					return broken
				}
				return nil
			}
			s.set(hooks{afterGet: flaky, afterUpdate: flaky})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := memory.NewFleet()
				proceed := make(chan struct{})
				a, store := joinRacing(t, f, task.Options{Recovery: task.Recovery{ParkAfter: -1}}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					<-proceed
					return work(ctx, run)
				})
				b := join(t, f, task.Options{}, work)
				id := a.create(t, nil)
				fail(a, store)
				close(proceed)
				slow := &peer{answer: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
					time.Sleep(5 * time.Second)
					return echoMessage(ctx, method, params)
				}}
				out, err := b.Result(t.Context(), "alice", id, slow)
				if err != nil {
					t.Fatal(err)
				}
				store.set(hooks{})
				if got := found(t, out); got != "2" || a.runs.Load() != 1 || b.runs.Load() != 0 {
					t.Errorf("found %s entries, %d and %d runs", got, a.runs.Load(), b.runs.Load())
				}
			})
		})
	}
}

// An input request stays open when the work that waits for its answer has lost its claim: the user
// is not asked again.
func TestInputRequestSurvivesLostClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a, b := join(t, f, task.Options{}, asks), join(t, f, task.Options{}, asks)
		id := a.create(t, nil)
		slow := &peer{answer: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			time.Sleep(5 * time.Second)
			return echoMessage(ctx, method, params)
		}}
		time.AfterFunc(time.Second, func() {
			if err := a.Internals(boundary.Caller{}).TakeOver(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
		if out, err := b.Result(t.Context(), "alice", id, slow); err != nil || out.Error != nil {
			t.Errorf("%v, %v", out.Error, err)
		}
		calls := 0
		for _, message := range slow.received() {
			if strings.HasPrefix(message, mcp.MethodElicitationCreate) {
				calls++
			}
		}
		if calls != 1 || a.runs.Load() != 2 {
			t.Errorf("asked %d times in %d runs", calls, a.runs.Load())
		}
	})
}

// The holder of a task stores an undo and an input request after another member has read the record,
// and before that member claims the task: the work there knows of the undo, and its next input
// request has another number.
func TestWritesDuringTakeOver(t *testing.T) {
	for name, held := range map[string]struct { // a parked task is claimed with the brief of the first read
		read int32
		cfg  task.Options
	}{"running": {2, task.Options{Recovery: task.Recovery{ParkAfter: -1}}}, "parked": {1, task.Options{Recovery: task.Recovery{ParkAfter: time.Second}}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, cfg := memory.NewFleet(), held.cfg
				wake := time.Now().Add(time.Minute)
				a := join(t, f, cfg, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					if err := run.Sleep(ctx, wake); err != nil {
						return nil, err
					}
					if err := run.Record(ctx, task.Entry{Kind: taskrules.KindUndo, Key: "undo", Occurrence: 1}); err != nil {
						return nil, err
					}
					return asks(ctx, run)
				})
				b, store := joinRacing(t, f, cfg, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					if !run.Internals(boundary.Caller{}).Undoes() {
						t.Error("the work does not know that it must undo something")
					}
					if _, err := ask(ctx, run, "of another branch"); err != nil {
						return nil, err
					}
					return asks(ctx, run)
				})
				id := a.create(t, nil)
				time.Sleep(30 * time.Second)
				var reads atomic.Int32
				store.set(hooks{afterGet: func(task.Record) error {
					if reads.Add(1) == held.read {
						time.Sleep(time.Until(wake.Add(time.Second)))
					}
					return nil
				}})
				if err := b.Internals(boundary.Caller{}).TakeOver(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				out, err := b.Result(t.Context(), "alice", id, &peer{answer: echoMessage})
				if err != nil || out.Error != nil || b.runs.Load() != 1 {
					t.Errorf("%v, %v, %d runs", out.Error, err, b.runs.Load())
				}
			})
		})
	}
}

// The servers of the store lose their latest writes, and with them perhaps the lease of a member that
// follows a task: the member takes the earlier record that the store has now, and so do its waiters.
func TestStoreLosesWrites(t *testing.T) {
	t.Run("with the lease", func(t *testing.T) { storeLosesWrites(t, 2*task.DefaultLease) })
	t.Run("without the lease", func(t *testing.T) { storeLosesWrites(t, time.Second) })
}

func storeLosesWrites(t *testing.T, away time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		a, store := joinRacing(t, memory.NewFleet(), task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			for n := range 5 {
				if err := run.SetStatusMessage(ctx, fmt.Sprint(n)); err != nil {
					return nil, err
				}
			}
			return untilDone(ctx, run)
		})
		id := a.create(t, nil)
		waiter := make(chan string, 1)
		go func() { // ends with the lost writes
			out, err := a.Result(t.Context(), "alice", id, new(peer))
			waiter <- fmt.Sprint(string(out.Result), err)
		}()
		synctest.Wait()
		earlier := a.record(t, id)
		earlier.Revision, earlier.Status, earlier.Result = 2, mcp.TaskStatusCompleted, json.RawMessage(`{"found":1}`)
		store.set(hooks{outdated: func() *task.Record { return &earlier }})
		store.Cut()
		time.Sleep(away)
		store.Heal()
		time.Sleep(2 * time.Minute)
		if state := get(t, a.Manager, id); state.Status != earlier.Status {
			t.Errorf("the task is %s", state.Status)
		}
		synctest.Wait()
		select {
		case got := <-waiter:
			if got != `{"found":1}<nil>` {
				t.Error(got)
			}
		default:
			t.Error("the waiter waits")
		}
		store.set(hooks{})
		if _, err := a.CancelForOperator(t.Context(), id); err != nil {
			t.Error(err)
		}
	})
}

// The lease of a member ends while the member parks work. The work does not run again with the old
// claim.
func TestLeaseEndsWhileWorkIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wake := time.Now().Add(10 * time.Minute)
		a, store := joinRacing(t, memory.NewFleet(), task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			if err := run.Sleep(ctx, wake); err != nil {
				return nil, err
			}
			return raw(`{"found":1}`), run.Report(task.Progress{Value: 1})
		})
		store.set(hooks{afterUpdate: func(r task.Record) error {
			if r.Durable.Parked && r.Claim.Epoch == 1 {
				store.set(hooks{})
				store.Cut()
				time.Sleep(task.DefaultLease + time.Second)
				store.Heal()
			}
			return nil
		}})
		id := a.create(t, nil)
		time.Sleep(5 * time.Minute)
		if r := a.record(t, id); !r.Durable.Parked || r.Claim.Epoch != 2 {
			t.Errorf("the record of the sleeping task is %+v", r)
		}
		if got := found(t, result(t, a.Manager, id)); got != "1" {
			t.Errorf("got %s", got)
		}
	})
}

// A change of parked work at its holder whose acknowledgement was lost reaches the work, because
// the store reports it.
func TestLostChangeReachesParkedWorkOfHolder(t *testing.T) {
	for name, change := range map[string]func(m *member, id string) error{
		"answer": func(m *member, id string) error {
			return m.Update(context.Background(), "alice", id, "tasks/update", func(*task.InputRequest) (json.RawMessage, error) { return raw(`1`).bytes(), nil })
		},
		"cancellation": func(m *member, id string) error {
			_, err := m.Cancel(context.Background(), "alice", id, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, store := joinRacing(t, memory.NewFleet(), task.Options{Recovery: task.Recovery{ParkAfter: time.Second}}, asks)
				id := m.create(t, nil)
				time.Sleep(time.Minute)
				lost := false
				store.set(hooks{
					afterUpdate: func(task.Record) error { lost = true; return memory.ErrCut },
					afterGet: func(task.Record) error {
						if lost {
							return memory.ErrCut
						}
						return nil
					},
				})
				if err := change(m, id); err == nil {
					t.Error("no error")
				}
				store.set(hooks{})
				time.Sleep(time.Minute)
				if r := m.record(t, id); !task.Terminal(r.Status) {
					t.Errorf("the task is %s", r.Status)
				}
				if s := m.Stats(); s.Parked+s.Running != 0 {
					t.Errorf("in the end: %+v", s)
				}
			})
		})
	}
}

// outdatedStore returns an empty journal while outdated is set, and the first record if records is
// set.
type outdatedStore struct {
	*memory.FleetStore
	records  bool
	first    task.Record
	outdated atomic.Bool
}

func (s *outdatedStore) Get(ctx context.Context, id string) (task.Record, error) {
	if s.records && s.outdated.Load() {
		return s.first, nil
	}
	return s.FleetStore.Get(ctx, id)
}

func (s *outdatedStore) Journal(ctx context.Context, id string) ([]task.Entry, error) {
	if s.outdated.Load() {
		return nil, nil
	}
	return s.FleetStore.Journal(ctx, id)
}

// Work does not repeat a step because a server of the store that was cut off returns an old
// journal.
func TestOutdatedJournalIsReadAgain(t *testing.T) {
	for _, records := range []bool{false, true} {
		t.Run(fmt.Sprint("record too: ", records), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &member{store: memory.NewFleet().Store()}
				store := &outdatedStore{FleetStore: m.store, records: records}
				m.work = func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
					var err error
					if store.first, err = store.Get(ctx, run.ID()); err != nil {
						return nil, err
					}
					if err := run.Record(ctx, task.Entry{Key: "a", Occurrence: 1}); err != nil {
						return nil, err
					}
					store.outdated.Store(true)
					time.AfterFunc(10*time.Second, func() { store.outdated.Store(false) })
					entries, _, err := run.Journal(ctx)
					return raw(fmt.Sprintf(`{"found":%d}`, len(entries))), err
				}
				m.Manager = newManager(t, task.Options{Store: store, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return m.run }}})
				id := m.create(t, nil)
				if got := found(t, result(t, m.Manager, id)); got != "1" {
					t.Errorf("found %s entries", got)
				}
			})
		})
	}
}

// waitingStore is an outdatedStore whose Wait fails after a second.
type waitingStore struct{ *outdatedStore }

func (s *waitingStore) Wait(ctx context.Context, id string, revision uint64) (task.Record, error) {
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	r, err := s.FleetStore.Wait(limited, id, revision)
	if limited.Err() != nil && ctx.Err() == nil {
		err = errors.New("no answer")
	}
	return r, err
}

// Work that waits for an answer does not end because a server of the store that was cut off returns
// a record from before the input request.
func TestOutdatedRecordDoesNotEndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		m := &member{store: f.Store()}
		store := &waitingStore{&outdatedStore{FleetStore: m.store, records: true}}
		m.work = func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			var err error
			if store.first, err = store.Get(ctx, run.ID()); err != nil {
				return nil, err
			}
			return asks(ctx, run)
		}
		m.Manager = newManager(t, task.Options{Store: store, Recovery: task.Recovery{Recover: func(task.Record) task.Work { return m.run }}})
		front := join(t, f, task.Options{Member: task.Member{Tools: []string{}}}, nil)
		id := m.create(t, nil)
		synctest.Wait()
		store.outdated.Store(true)
		time.Sleep(10 * time.Second)
		store.outdated.Store(false)
		time.Sleep(time.Minute)
		out, err := front.Result(t.Context(), "alice", id, &peer{answer: func(context.Context, string, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"answer":1}`), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := found(t, out); got != `{"answer":1}` {
			t.Errorf("answer %s", got)
		}
	})
}

// Work does not end because a server of the store that was cut off returns the record from before
// the work was claimed.
func TestOutdatedRecordDoesNotFenceWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := join(t, f, task.Options{}, untilDone)
		var earlier task.Record
		var store *racingStore
		work := func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			store.set(hooks{outdated: func() *task.Record { return &earlier }})
			time.AfterFunc(10*time.Second, func() { store.set(hooks{}) })
			return raw(`{}`), run.SetStatusMessage(ctx, "working")
		}
		var b *member
		b, store = joinRacing(t, f, task.Options{Logger: slog.New(slog.DiscardHandler)}, work)
		id := a.create(t, nil)
		earlier = a.record(t, id)
		if err := b.Internals(boundary.Caller{}).TakeOver(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if r := a.record(t, id); r.Status != mcp.TaskStatusCompleted {
			t.Errorf("the task is %s: %s", r.Status, r.StatusMessage)
		}
	})
}

// unansweredStore is a store that is cut off while it creates a record: before the record is
// stored, or afterwards.
type unansweredStore struct {
	*memory.FleetStore
	before, after bool
	late          bool // the write is on its way when Create fails; the store answers
}

func (s *unansweredStore) Create(ctx context.Context, r task.Record) (task.Record, error) {
	if s.late {
		return task.Record{}, fmt.Errorf("%w: no answer", task.ErrDoubtful)
	}
	if s.before {
		s.Cut()
	}
	r, err := s.FleetStore.Create(ctx, r)
	if s.after {
		s.Cut()
		return task.Record{}, memory.ErrCut
	}
	return r, err
}

// A creation that was reported as failed does not run later: neither if the record was stored, nor
// if the write arrives after the store has answered again.
func TestFailedCreationDoesNotRun(t *testing.T) {
	for name, tools := range map[string][]string{"in a worker": nil, "in a front end": {}} {
		for what, failing := range map[string]unansweredStore{"stored": {after: true}, "not stored": {before: true}, "on its way": {late: true}} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := memory.NewFleet()
					store := &failing
					store.FleetStore = f.Store()
					var runs atomic.Int32
					work := func(context.Context, *task.Run) (codec.Encoder, error) {
						runs.Add(1)
						return raw(`{}`), nil
					}
					join := func(s task.Store, tools []string) *task.Manager {
						return newManager(t, task.Options{
							Store: s, Member: task.Member{Tools: tools}, Logger: slog.New(slog.DiscardHandler),
							Recovery: task.Recovery{Recover: func(task.Record) task.Work { return work }},
						})
					}
					m := join(store, tools)
					join(f.Store(), nil)
					synctest.Wait() // it does not find the task by chance
					_, err := m.Create(t.Context(), task.Request{Principal: "alice", Method: "tools/call", Name: "pay", Restartable: true, Work: work})
					if !errors.Is(err, task.ErrDoubtful) {
						t.Errorf("Create: %v", err)
					}
					synctest.Wait()
					store.before, store.after, store.late = false, false, false
					store.Heal()
					time.Sleep(time.Second)
					list, _, err := m.List(t.Context(), "alice", "")
					if err != nil || len(list) != 1 || list[0].Status != mcp.TaskStatusFailed {
						t.Fatalf("tasks %+v, %v", list, err)
					}
					if _, err := f.Store().Create(t.Context(), task.Record{ID: list[0].TaskID, Owner: "alice"}); !errors.Is(err, task.ErrExists) {
						t.Errorf("a late write: %v", err)
					}
					join(f.Store(), nil).Close(t.Context()) // the others look for its tasks
					time.Sleep(5 * time.Minute)
					if n := runs.Load(); n != 0 {
						t.Errorf("%d runs", n)
					}
				})
			})
		}
	}
}

// A response to an input request is stored although a server that was cut off returns the record
// from before the input request.
func TestUpdateOfOutdatedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := memory.NewFleet()
		a := join(t, f, task.Options{}, func(ctx context.Context, run *task.Run) (codec.Encoder, error) {
			time.Sleep(time.Second)
			answer, err := run.Call(ctx, mcp.MethodElicitationCreate, nil)
			return raw(answer), err
		})
		b, store := joinRacing(t, f, task.Options{}, nil)
		id := a.create(t, nil)
		earlier := a.record(t, id)
		time.Sleep(time.Minute)
		if got := get(t, a.Manager, id); got.Status != mcp.TaskStatusInputRequired {
			t.Fatalf("the task is %s", got.Status)
		}
		var reads atomic.Int64
		store.set(hooks{outdated: func() *task.Record {
			if reads.Add(1) > 2 { // one to check the principal, one to answer
				return nil
			}
			return &earlier
		}})
		err := b.Update(t.Context(), "alice", id, "tasks/update", func(*task.InputRequest) (json.RawMessage, error) {
			return json.RawMessage(`{"action":"accept"}`), nil
		})
		store.set(hooks{})
		synctest.Wait()
		if r := a.record(t, id); err != nil || r.Status != mcp.TaskStatusCompleted || !strings.Contains(string(r.Result), "accept") {
			t.Errorf("the task is %s with %s, %v", r.Status, string(r.Result), err)
		}
	})
}

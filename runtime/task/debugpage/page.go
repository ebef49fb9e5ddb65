package debugpage

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/rerun"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// Defaults of [Options].
const (
	defaultPageSize = 100
	defaultMaxTasks = 10_000
)

const (
	maxOwners   = 20   // owners in the table of owners
	maxMembers  = 100  // members in the table of members
	maxRefusals = 20   // refused calls in the list view
	listText    = 120  // bytes of a text in the list view
	taskText    = 4096 // bytes of a text in the view of a task
	refresh     = 5    // seconds until a view loads itself again
	maxEntries  = 1000 // entries of a journal in the view of a task
)

// queryTimeout is how long the view of a task waits for the events of the other members.
const queryTimeout = time.Second

// Options configures the page.
type Options struct {
	// Store contains the tasks. It is required. The page only reads it.
	Store task.Store
	// Stats returns the counters, see [task.Manager.Stats]. If it is nil, no counters are shown.
	Stats func() task.Stats
	// History holds the events of the Manager. If it is nil, no events are shown.
	History *History
	// Cancel cancels a task, see [task.Manager.CancelForOperator]. If it is nil, the page is
	// read-only.
	Cancel func(ctx context.Context, id string) (mcp.Task, error)
	// Members lists the members of the fleet, see [task.Manager.Members]. If it is nil, or returns
	// nil, the page shows neither members nor the holders of tasks.
	Members func() []task.Member
	// Query gets the events of a task from all members of the fleet. All of them need
	// [History.Respond] as their [task.Options].Hooks.Queried. The view of a task waits at most a
	// second for them. If Query is nil, the view shows the events of this process only.
	Query func(ctx context.Context, request []byte) (map[string][]byte, error)
	// WaitsFor returns the reason why a task waits that no process runs. The page shows it as the
	// status message. It may be nil.
	WaitsFor func(r *task.Record) string
	// TakeOver runs a task again in this process. It may be nil.
	TakeOver func(ctx context.Context, id string) error
	// Hosts are the host names, without a port, that requests may have in addition to loopback
	// names and addresses.
	Hosts []string
	// PageSize is the number of tasks on a page of the list. The default is 100.
	PageSize int
	// MaxTasks is the maximum number of tasks that a list reads, and its sums count. If the store
	// has more, the page says so; those of one owner, and single tasks, are found nevertheless. The
	// default is 10,000, for which the page holds a few megabytes.
	MaxTasks int
}

// Of returns the Options of the page for the tasks of a Manager: all views and all operations that
// its process has. The store is that of m. The history, whose Add is the Audit of [task.Options],
// and whose Respond is its Queried in a fleet, may be nil. Clear Cancel and TakeOver for a page that
// can only be read.
func Of(m *task.Manager, store task.Store, history *History) Options {
	cfg := Options{Store: store, Stats: m.Stats, History: history, Cancel: m.CancelForOperator, WaitsFor: m.Internals(boundary.Caller{}).WaitsFor}
	if m.Members() != nil {
		cfg.Members, cfg.Query, cfg.TakeOver = m.Members, m.Internals(boundary.Caller{}).Query, m.Internals(boundary.Caller{}).TakeOver
	}
	return cfg
}

// New returns a handler that serves the page. All views have the same URL with different queries.
// It allows GET and HEAD. With cfg.Cancel or cfg.TakeOver, it also allows POST with the query
// cancel=ID or takeover=ID, from its own pages and from programs that are not browsers. To prevent
// DNS rebinding, the Host of a request must be an IP address, a loopback name or one of cfg.Hosts.
// If the request arrives at a loopback address, an IP address as Host must be a loopback address,
// too, or one of cfg.Hosts.
//
// New panics if cfg has no Store.
func New(cfg Options) http.Handler {
	if cfg.Store == nil {
		panic("debugpage: no store")
	}
	if cfg.PageSize <= 0 {
		cfg.PageSize = defaultPageSize
	}
	if cfg.MaxTasks <= 0 {
		cfg.MaxTasks = defaultMaxTasks
	}
	return &page{Options: cfg, template: template.Must(template.New("").Funcs(functions).Parse(text))}
}

//go:embed page.html
var text string

//go:embed page.css
var style []byte

// policy is the content security policy.
const policy = "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"

type page struct {
	Options
	template *template.Template
	origin   http.CrossOriginProtection

	mu     sync.Mutex
	latest *snapshot // nil before the first list
}

// ServeHTTP implements [http.Handler].
func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // with "no-referrer", forms would have no Origin
	h.Set("Cache-Control", "no-store")
	switch v := r.URL.Query(); {
	case !p.allowedHost(r):
		http.Error(w, "host not allowed: use a loopback name, an IP address, or a name listed in Hosts", http.StatusForbidden)
	case r.Method == http.MethodPost && p.Cancel != nil && v.Has("cancel"):
		id := v.Get("cancel")
		p.change(w, r, id, "cancelled", func() error { _, err := p.Cancel(r.Context(), id); return err })
	case r.Method == http.MethodPost && p.TakeOver != nil && v.Has("takeover"):
		id := v.Get("takeover")
		p.change(w, r, id, "taken over", func() error { return p.TakeOver(r.Context(), id) })
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed: only a task can be changed, by POST with the query cancel=ID or takeover=ID", http.StatusMethodNotAllowed)
	case v.Has("style"):
		h.Set("Content-Type", "text/css; charset=utf-8")
		w.Write(style)
	case v.Has("task"):
		p.task(w, r, v.Get("task"))
	default:
		q, ok := parseQuery(v)
		if !ok {
			http.Error(w, "invalid query", http.StatusBadRequest)
			return
		}
		p.list(w, r, q)
	}
}

// allowedHost reports whether the Host of a request is allowed, see New.
func (p *page) allowedHost(r *http.Request) bool {
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.Trim(name, "[]")
	if strings.EqualFold(name, "localhost") || slices.ContainsFunc(p.Hosts, func(h string) bool { return strings.EqualFold(h, name) }) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && (addr.Unmap().IsLoopback() || !overLoopback(r))
}

// overLoopback reports whether the local address of a request's connection is a loopback address.
func overLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}

// change changes a task with f and redirects to its view. Done says what f does.
func (p *page) change(w http.ResponseWriter, r *http.Request, id, done string, f func() error) {
	if err := p.origin.Check(r); err != nil {
		http.Error(w, "page of another site: "+err.Error(), http.StatusForbidden)
		return
	}
	err := f()
	_, moved := errors.AsType[*task.MoveError](err) // the task is terminal, and its view shows that
	switch {
	case err == nil || moved:
		w.Header().Set("Location", linkTo(id)) // http.Redirect would drop the last element of the path
		w.WriteHeader(http.StatusSeeOther)
	case errors.Is(err, task.ErrNotFound):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, taskrules.ErrNotMovable):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		http.Error(w, "task not "+done+": "+err.Error(), http.StatusInternalServerError)
	}
}

// linkTo returns the URL of the view of a task, relative to the URL of any other view.
func linkTo(id string) string { return "?task=" + template.URLQueryEscaper(id) }

// listView is the data of the template "list".
type listView struct {
	Now      time.Time
	Changes  bool // tasks can be changed
	Fleet    bool // the tasks have holders
	Members  []memberRow
	Unlisted int     // number of members that are not in Members
	Holder   *holder // whose tasks are shown; nil for all
	AnyLink  string  // link to the same view for all holders
	Counters []counter
	All      group
	Statuses []choice
	Owners   []choice
	Hidden   int // number of owners that are not in Owners
	Owner    *string
	AllLink  string // link to the same view for all owners
	Order    choice // the other order
	Refresh  bool   // the page refreshes itself
	Other    string // link to the same view with the other value of Refresh
	Matching int
	Partial  int    // number of tasks that were read if the store has more; otherwise 0
	Unread   string // why the tasks cannot be read; "" if they were
	Tasks    []row
	First    string // link to the first page; "" on the first page
	Next     string // link to the next page; "" on the last page
	Refusals []entry
}

// memberRow is a member of the fleet with the number of unfinished tasks that it holds.
type memberRow struct {
	task.Member
	Tasks  int
	Link   string // link to its tasks
	Chosen bool
}

// Alive reports whether the member is alive. The others hold tasks.
func (m memberRow) Alive() bool { return !m.Joined.IsZero() }

// All reports whether the member runs the tasks of all tools.
func (m memberRow) All() bool { return m.Tools == nil }

// Left returns the time until the lease of the member ends, unless the member renews it.
func (m memberRow) Left(now time.Time) time.Duration { return max(m.Heard.Add(m.Lease).Sub(now), 0) }

// memberRows returns the members ordered by their names, after those that are not alive but hold
// tasks.
func memberRows(members []task.Member, s *survey, q query) (rows []memberRow) {
	for _, m := range members {
		rows = append(rows, memberRow{Member: m, Tasks: s.held[m.ID]})
		delete(s.held, m.ID)
	}
	for id, n := range s.held {
		rows = append(rows, memberRow{Member: task.Member{ID: id}, Tasks: n})
	}
	slices.SortFunc(rows, func(a, b memberRow) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	for i := range rows {
		id := rows[i].ID
		rows[i].Link, rows[i].Chosen = q.withHolder(&id).link(), q.holder != nil && *q.holder == id
	}
	return rows
}

// fleet returns the members of the fleet, or nil.
func (p *page) fleet() []task.Member {
	if p.Members == nil {
		return nil
	}
	return p.Members()
}

// holder is a member that holds a task.
type holder struct {
	ID, Name string // Name is "" unless the member is alive
}

// holderOf returns the holder of a task.
func holderOf(members []task.Member, r *task.Record) holder { return memberOf(members, r.Claim.Member) }

// memberOf returns the member with an ID.
func memberOf(members []task.Member, id string) holder {
	for i := range members {
		if members[i].ID == id {
			return holder{id, members[i].Name}
		}
	}
	return holder{ID: id}
}

// choice is a link to another view and the sum over its tasks.
type choice struct {
	Name, Link string
	Chosen     bool
	Group      *group
}

// row is a task in the list.
type row struct {
	task.Record
	OwnerLink string
	Holder    holder // of a task that is not terminal
}

// Live reports whether the task is not terminal.
func (r *row) Live() bool { return !task.Terminal(r.Status) }

type counter struct {
	Name  string
	Value uint64
}

func (p *page) list(w http.ResponseWriter, r *http.Request, q query) {
	s, err := p.survey(r.Context(), q)
	members := p.fleet()
	v := listView{
		Now: time.Now(), Changes: p.Cancel != nil || p.TakeOver != nil, Fleet: members != nil, All: s.all, Owner: q.owner,
		AllLink: q.withOwner(nil).link(), AnyLink: q.withHolder(nil).link(), Matching: s.matching,
		Order: choice{Name: "newest first", Link: q.withOrder(!q.newest).link()}, Refresh: !q.paused, Other: q.withPause(!q.paused).link(),
	}
	status := http.StatusOK
	if err != nil {
		status, v.Unread = http.StatusInternalServerError, err.Error()
	}
	if v.Fleet {
		v.Members = memberRows(members, s, q)
		v.Unlisted = max(len(v.Members)-maxMembers, 0)
		v.Members = v.Members[:len(v.Members)-v.Unlisted]
	}
	if q.holder != nil {
		v.Holder = new(memberOf(members, *q.holder))
	}
	if s.partial {
		v.Partial = s.all.Count
	}
	if q.newest {
		v.Order.Name = "oldest first"
	}
	if p.Stats != nil {
		v.Counters = counters(p.Stats(), v.Fleet)
	}
	for _, name := range statuses {
		c := choice{Name: string(name), Link: q.withStatus(string(name)).link(), Group: s.byStatus[name]}
		c.Group = cmp.Or(c.Group, new(group))
		v.Statuses = append(v.Statuses, c)
	}
	v.Statuses = append(v.Statuses,
		choice{Name: statusLive, Link: q.withStatus(statusLive).link(), Group: s.live()},
		choice{Name: statusAll, Link: q.withStatus(statusAll).link(), Group: &s.all})
	for i := range v.Statuses {
		v.Statuses[i].Chosen = v.Statuses[i].Name == q.status
	}
	for _, owner := range s.owners(maxOwners) {
		v.Owners = append(v.Owners, choice{owner, q.withOwner(&owner).link(), q.owner != nil && *q.owner == owner, s.byOwner[owner]})
	}
	v.Hidden = len(s.byOwner) - len(v.Owners)
	for _, r := range s.page {
		v.Tasks = append(v.Tasks, row{r, q.withOwner(&r.Owner).link(), holderOf(members, &r)})
	}
	if q.after != nil {
		v.First = q.withStatus(q.status).link()
	}
	if s.more {
		q.after = new(positionOf(&s.page[len(s.page)-1]))
		v.Next = q.link()
	}
	if p.History != nil {
		v.Refusals = p.History.refusals(maxRefusals)
	}
	p.show(w, status, "list", v)
}

func counters(s task.Stats, fleet bool) []counter {
	list := []counter{
		{"created", s.Created}, {"completed", s.Completed}, {"failed", s.Failed}, {"cancelled", s.Cancelled},
		{"expired", s.Expired}, {"recovered", s.Recovered}, {"reads", s.Reads}, {"refused calls", s.Refused},
		{"of those for foreign tasks", s.Foreign},
	}
	if fleet {
		list = append(list, counter{"taken over", s.TakenOver}, counter{"leases that ended", s.Lapsed})
	}
	return append(list, counter{"work running now", uint64(s.Running)}, counter{"work queued now", uint64(s.Queued)},
		counter{"work parked now", uint64(s.Parked)}, counter{"calls waiting now", uint64(s.Waiting)}, counter{"outcomes to store now", uint64(s.Unstored)})
}

// taskView is the data of the template "task".
type taskView struct {
	Now        time.Time
	ID         string
	Record     *task.Record // nil if the store has no such task
	Live       bool         // the task is not terminal
	Owner      string       // link to the owner's tasks
	Changes    bool         // tasks can be changed
	Cancel     string       // the URL to post to; "" if the task cannot be cancelled
	TakeOver   string       // the URL to post to; "" if the task cannot be taken over
	Confirm    string       // "cancel" or "takeover" if the view asks for the confirmation of that
	Fleet      bool         // the task has a holder
	Holder     holder
	Journal    []task.Entry // at most maxEntries
	Earlier    int          // number of entries before those of Journal
	Unread     string       // why the journal cannot be read; "" if it was
	HasHistory bool         // Options.History is set
	History    []event
	Silent     []string // names of the members whose events are missing
}

// explain sets the status message of a task that no process runs to the reason.
func (p *page) explain(r *task.Record) {
	if p.WaitsFor != nil {
		r.StatusMessage = cmp.Or(p.WaitsFor(r), r.StatusMessage)
	}
}

func (p *page) task(w http.ResponseWriter, r *http.Request, id string) {
	members := p.fleet()
	v := taskView{Now: time.Now(), ID: id, Changes: p.Cancel != nil || p.TakeOver != nil, Fleet: members != nil, HasHistory: p.History != nil}
	status := http.StatusOK
	switch record, err := p.Store.Get(r.Context(), id); {
	case errors.Is(err, task.ErrNotFound):
		status = http.StatusNotFound
	case err != nil:
		http.Error(w, "store failed: "+err.Error(), http.StatusInternalServerError)
		return
	default:
		v.Record = &record
		p.explain(&record)
		v.Owner = query{status: statusAll, owner: &record.Owner}.link()
		if v.Live = !task.Terminal(record.Status); v.Live && p.Cancel != nil {
			v.Cancel = "?cancel=" + template.URLQueryEscaper(id)
		}
		if v.Live && p.TakeOver != nil && record.Restartable {
			v.TakeOver = "?takeover=" + template.URLQueryEscaper(id)
		}
		if d := record.Durable; d != nil && d.Recorded > 0 {
			v.Journal, err = p.Store.Journal(r.Context(), id)
			if err != nil && !errors.Is(err, task.ErrNotFound) {
				v.Unread = err.Error()
			}
			v.Earlier = max(len(v.Journal)-maxEntries, 0)
			v.Journal = v.Journal[v.Earlier:]
		}
		v.Holder = holderOf(members, &record)
	}
	switch confirm := r.URL.Query().Get("confirm"); {
	case confirm == "cancel" && v.Cancel != "", confirm == "takeover" && v.TakeOver != "":
		v.Confirm = confirm
	}
	if v.HasHistory {
		v.History, v.Silent = p.events(r.Context(), id, members)
	}
	p.show(w, status, "task", v)
}

// event is an event with the name of the member that has reported it.
type event struct {
	entry
	By string
}

// events returns the events of a task at all members of the fleet, in the order of their times.
// Silent are the names of the members that have not responded.
func (p *page) events(ctx context.Context, id string, members []task.Member) (list []event, silent []string) {
	if p.Query == nil || members == nil {
		for _, e := range p.History.taskEvents(id) {
			list = append(list, event{entry: e})
		}
		return list, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	responses, err := p.Query(ctx, []byte(id))
	for i := range members {
		entries, ok := decodeEvents(responses[members[i].ID])
		if !ok || err != nil {
			silent = append(silent, members[i].Name)
		}
		for _, e := range entries {
			list = append(list, event{e, members[i].Name})
		}
	}
	slices.SortStableFunc(list, func(a, b event) int { return a.At.Compare(b.At) })
	return list, silent
}

// show executes a template and writes the page, or an error if the template fails.
func (p *page) show(w http.ResponseWriter, status int, name string, view any) {
	var b bytes.Buffer
	if err := p.template.ExecuteTemplate(&b, name, view); err != nil {
		http.Error(w, "template failed: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(b.Bytes())
}

// functions are the functions of the templates.
var functions = template.FuncMap{
	"brief":   func(s string) string { return cut(s, listText) },
	"long":    func(s string) string { return cut(s, taskText) },
	"time":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000") },
	"since":   func(now, t time.Time) string { return span(now.Sub(t)) },
	"span":    span,
	"link":    linkTo,
	"refresh": func() int { return refresh },

	"describe": describe,
	"cause":    cause,
}

// describe says what an entry of a journal is.
func describe(e task.Entry) string {
	switch rerun.Kind(e.Kind) {
	case rerun.KindInput:
		return "an answer"
	case rerun.KindSleep:
		return "a sleep"
	case rerun.KindGivenUp:
		return "a sleep was given up"
	case rerun.KindUndo:
		return "an undo was registered"
	case rerun.KindUndone:
		if e.Failed {
			return "an undo has failed"
		}
		return "an undo is done"
	case rerun.KindWait:
		return "the first of several events"
	case rerun.KindTimer:
		return "a timer"
	case rerun.Kind(taskrules.KindFailure):
		return "the failure that the undos follow"
	}
	if e.Failed {
		return "a failure"
	}
	return "a result"
}

// cause says why work undoes what it has done.
func cause(u taskrules.Undo) string {
	switch u {
	case taskrules.UndoFailed:
		return "it has failed"
	case taskrules.UndoCancelled:
		return "the task was cancelled"
	case taskrules.UndoExpired:
		return "the task has expired"
	}
	return "of an unknown reason"
}

// span formats a duration with at most two units.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

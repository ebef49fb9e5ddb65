package task

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
	"github.com/mcpwire/mcpwire/runtime/internal/fleets"
)

// placement is what decides which members can run a task.
type placement struct {
	tool    string
	version string // of the work, if it has begun
	begun   bool   // otherwise any version of the tool runs the task
	job     bool   // an external system runs the task; the tool has no version
	bound   bool   // to the process that has created it: any other member may fail it, or follow its job
	labels  []string
}

// placementOf returns the placement of a task of a fleet.
func placementOf(r *Record) placement {
	p := placement{tool: r.Name, begun: r.Begun() && !r.unclaimedNew(), job: r.Runner != "", bound: !r.Restartable, labels: r.Labels}
	if r.Durable != nil && p.begun {
		p.version = r.Durable.Version
	}
	return p
}

// unclaimedNew reports whether a front end of a fleet has created the task for other members and
// none has claimed it yet. Its Phase does not say so, so that earlier versions of this package can
// read it.
func (r *Record) unclaimedNew() bool {
	return r.Claim.Epoch == 0 && r.running() && r.Durable.Recorded == 0
}

// maxMissing is the maximum length of Member.Missing. A member remembers all that it has refused,
// and announces the latest. It ignores offers of other tasks that it has refused. Another member
// may leave such a task to it for one lease, and does not know that no member serves the task.
const maxMissing = 64

// missing returns what a member that refuses the task is missing.
func (p *placement) missing() fleets.Missing {
	if p.begun {
		return fleets.Missing{Tool: p.tool, Version: p.version}
	}
	return fleets.Missing{Tool: p.tool, All: true}
}

// has reports whether a member may have the tool and the version that a task needs. Until it has
// refused such a task, it may.
func (m *Member) has(p *placement) bool {
	return p.job || p.bound || !slices.ContainsFunc(m.Missing, func(x fleets.Missing) bool {
		return x.Tool == p.tool && (x.All || p.begun && x.Version == p.version)
	})
}

// serves reports whether a member runs a task, if it does not hold it yet.
func serves(member *Member, p *placement) bool {
	return !member.Draining && (p.bound || member.Tools == nil || slices.Contains(member.Tools, p.tool)) && member.lacks(p.labels) == "" && member.has(p)
}

// refused announces that this member does not run tasks such as r, because Options.Recovery.Recover
// has returned no work for it. The others offer it no more of them.
func (f *shared) refused(run *Run, r *Record) bool {
	p := placementOf(r)
	x := p.missing()
	f.mu.Lock()
	known := p.job || slices.Contains(f.missing, x)
	if !known {
		f.missing = append(f.missing, x)
	}
	f.mu.Unlock()
	if !known {
		f.m.cfg.Logger.Info("task refused", "task", r.ID, "tool", x.Tool, "version", p.version)
		f.announceMissing()
	}
	if run != nil {
		f.handOverQueued(run)
	}
	return true
}

// self returns this member with all that it has refused.
func (f *shared) self() Member {
	self := f.current().Self()
	f.mu.Lock()
	defer f.mu.Unlock()
	self.Missing = f.missing
	return self
}

// toolsChanged announces that this member may have the tools and versions that it was missing.
func (f *shared) toolsChanged() {
	f.mu.Lock()
	f.missing = nil
	f.mu.Unlock()
	f.announceMissing()
	f.scan()
}

// announceMissing announces what this member is missing, unless it has announced that already.
func (f *shared) announceMissing() {
	f.announcing.Lock() // so that the latest list is announced last
	defer f.announcing.Unlock()
	f.mu.Lock()
	missing, membership := slices.Clone(f.missing[max(0, len(f.missing)-maxMissing):]), f.membership
	f.mu.Unlock()
	boundary.Run(func() error {
		if !slices.Equal(membership.Self().Missing, missing) {
			membership.Announce(missing)
		}
		return nil
	})
}

// ToolsChanged makes the Manager ask [Recovery.Recover] again for work that was not available
// before. Call it after tools, or versions of tools, were added.
func (m *Manager) ToolsChanged() {
	m.fleet.toolsChanged()
	m.mu.Lock()
	var shelved []string
	for id, run := range m.runs {
		if run.shelved.Load() {
			shelved = append(shelved, id)
		}
	}
	m.mu.Unlock()
	for _, id := range shelved {
		m.unpark(id, false)
	}
}

// waitsFor returns why no process runs a task: for what tool, version and labels it waits. It
// returns "" for other tasks. [Manager.Get] and the like return it as the status message.
func (m *Manager) waitsFor(r *Record) string {
	if r.terminal() || !r.Restartable {
		return ""
	}
	p := placementOf(r)
	if members := m.Members(); members == nil {
		if run := m.findRun(r.ID); run == nil || !run.shelved.Load() {
			return ""
		}
		p.labels, p.begun, p.version = nil, r.Begun(), r.Durable.Version
	} else {
		held := slices.ContainsFunc(members, func(member Member) bool { return member.ID == r.Claim.Member })
		if held || designated(members, r.ID, &p) != "" {
			return ""
		}
	}
	text := fmt.Sprintf("waits for a process that has the tool %q", p.tool)
	if p.begun && (p.version != "" || m.cfg.Recovery.ToolVersion != nil && m.toolVersion(p.tool) != "") {
		text = fmt.Sprintf("waits for a process that has version %q of the tool %q", p.version, p.tool)
	}
	if len(p.labels) > 0 {
		text += " and the labels " + strings.Join(p.labels, ", ")
	}
	return text
}

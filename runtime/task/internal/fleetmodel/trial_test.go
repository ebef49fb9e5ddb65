package fleetmodel

// counts reports whether the death of the holder counts as one during the work (Record.running).
func (r *record) counts() bool {
	return r.exists && !r.terminal() && !r.parked && (r.mark == runs || r.mark == inTrial)
}

// owns reports whether a process knows that an id is that of one of its memberships.
func (p *process) owns(i int, member uint8) bool {
	return member >= p.first && processOf(member) == i
}

// startPhase returns the phase of a run whose work is about to start: suspects wait for their trial.
func (x *stepper) startPhase(p *process, r *run) phase {
	if x.trials && x.from.rec.reruns > 0 && !r.fenced(&x.from.rec) {
		return queued
	}
	return starting
}

// claimed stands for the rest of the write of recoverTask.
func (x *stepper) claimed(r *record, from uint8, died bool) {
	if !x.trials || r.parked {
		return
	}
	if died && r.counts() && !x.removed(deathCounted) {
		doomed := (r.mark == inTrial || x.removed(trialOnly)) && r.reruns > 0
		r.reruns++
		r.twice |= r.lost & (1 << from)
		r.lost |= 1 << from
		if r.mark = suspended; doomed {
			r.mark = isDoomed
		}
	}
	if r.mark != isDoomed {
		if r.mark = suspended; r.reruns == 0 {
			r.mark = runs
		}
	}
}

// grows applies that the journal has grown. If the holder has died before, its death still counts
// when the task is taken over.
func (x *stepper) grows(t *state, r *record) {
	t.history.deaths, t.history.trial = 0, false
	if i := processOf(r.holder); x.trials && r.holder != 0 && r.counts() && !(t.processes[i].up && t.processes[i].owns(i, r.holder)) {
		t.history.deaths = 1
	}
	if r.reruns, r.lost, r.twice = 0, 0, 0; r.mark == isDoomed {
		r.mark = suspended
	}
}

// countKill counts the death of a process that holds the task, or that has lost it and not said that
// it lives.
func (x *stepper) countKill(t *state, i int) {
	before := &x.from.processes[i]
	switch {
	case !x.trials:
	case before.owns(i, t.rec.holder) && t.rec.holder != 0 && t.rec.counts():
		t.history.deaths++
		t.history.trial = before.run.trial || (before.run.phase == queued || before.run.phase == none) && t.rec.mark == inTrial
	default:
		x.countLoss(t, i)
	}
}

// countLoss counts a process as dead that ends before it has said that it lives.
func (x *stepper) countLoss(t *state, i int) {
	if x.acquits(x.from, i) {
		t.history.deaths++
		t.history.trial = t.history.trial || t.rec.mark == isDoomed
	}
}

// countLate counts the death of a process if a write that happens only now says that the work runs
// there.
func (x *stepper) countLate(t *state, w *write) {
	p, before := &t.processes[w.process], &x.from.rec
	if !x.trials || p.up && p.owns(int(w.process), w.holder) || t.rec.holder != w.holder || !t.rec.counts() {
		return
	}
	if before.holder != w.holder || before.mark != t.rec.mark && !before.counts() {
		t.history.deaths++
		t.history.trial = t.rec.mark == inTrial
	}
}

// acquits reports whether a process is one of those that have died of the work according to the
// record.
func (x *stepper) acquits(s *state, i int) bool {
	p := &s.processes[i]
	if !p.up || s.rec.terminal() {
		return false
	}
	for member := p.first; member <= p.id; member += maxProcesses {
		if member != 0 && inSet(s.rec.lost, member) {
			return true
		}
	}
	return false
}

// livingLost reports whether one of the members that have died according to the record lives.
func (x *stepper) livingLost(s *state) bool {
	for i := range x.processes {
		if x.acquits(s, i) {
			return true
		}
	}
	return false
}

// acquit stands for fleet.acquit.
func (x *stepper) acquit(t *state, i int) {
	w := write{kind: acquitWrite, process: uint8(i)}
	x.commit(t, &w)
}

// acquitted stands for Manager.acquit.
func (x *stepper) acquitted(r *record, process, first uint8) {
	for member := first; member < 16; member += maxProcesses {
		for inSet(r.lost, member) {
			r.lost &^= 1 << member &^ r.twice
			r.twice &^= 1 << member
			r.reruns = max(r.reruns, 1) - 1
		}
	}
	if r.mark == isDoomed && r.reruns <= 1 && !x.removed(acquitLifts) {
		r.mark = suspended
	}
}

// doubted stands for what removeRun does after a run was fenced. A process whose lease has ended is
// assumed to notice that before it looks for orphans because of this: otherwise, two such processes
// could take the task from each other without end.
func (x *stepper) doubted(t *state, p *process) {
	if x.trials && !p.closing {
		p.doubt, p.scan = true, p.scan || inSet(t.alive, p.id)
	}
}

// noteLost applies that fenced runs were removed.
func (x *stepper) noteLost(t *state) {
	for i := range x.processes {
		before, p := &x.from.processes[i], &t.processes[i]
		if p.up && before.run.cause == isFenced && before.run.phase != none && p.run.phase == none {
			x.doubted(t, p)
		}
	}
}

// refuse stands for fleet.refuse.
func (x *stepper) refuse(t *state, i int) {
	if x.silent {
		return
	}
	t.history.refused |= 1 << i
	if !x.removed(refusalAnnounced) {
		t.missing |= 1 << i
	}
}

// upgrade stands for Manager.ToolsChanged.
func (x *stepper) upgrade(t *state, i int) {
	p := &t.processes[i]
	p.lacks = false
	t.history.refused &^= 1 << i
	if !x.removed(refusalForgotten) {
		t.missing &^= 1 << i
	}
	p.scan = p.scan || !x.removed(toolsScan)
}

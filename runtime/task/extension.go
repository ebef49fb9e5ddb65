package task

import (
	"context"
	"encoding/json"
)

// extension reports whether the task was created under the Tasks extension rather than by a request
// of a session.
func (r *Record) extension() bool {
	return r.Protocol.Traits().TasksByServer
}

// GetRecord is [Manager.Get] for the whole record, with input requests and outcome. Method is that
// of the request, for [Event]. The record must not be changed.
func (m managerInternals) GetRecord(ctx context.Context, principal, id, method string) (Record, error) {
	var r Record
	if err := m.get(ctx, principal, id, nil, &r); err != nil {
		m.audit.refused(principal, id, method, err)
		return Record{}, withID(id, err)
	}
	m.audit.read(&r, method)
	return r, nil
}

// Update answers open input requests of a task in one write. It calls answer for each open one;
// nil means that there is no answer yet. Method is that of the request, for [Event]. An error of
// answer is returned, and nothing is stored. If the task is terminal, Update does nothing.
func (m *Manager) Update(ctx context.Context, principal, id, method string, answer func(q *InputRequest) (json.RawMessage, error)) error {
	var r Record
	err := m.get(ctx, principal, id, nil, &r)
	if err == nil {
		err = m.update(ctx, id, answer)
	}
	if err != nil {
		m.audit.refused(principal, id, method, err)
		return withID(id, err)
	}
	return nil
}

func (m *Manager) update(ctx context.Context, id string, answer func(q *InputRequest) (json.RawMessage, error)) error {
	if err := m.hold(); err != nil {
		return err
	}
	defer m.group.Done()
	var answered []uint64
	_, err := m.change(ctx, id, func(r *Record) error {
		answered = answered[:0]
		if r.terminal() || r.withdrawn() {
			return errUnchanged
		}
		requests := r.InputRequests
		for i := range requests {
			q := &requests[i]
			if !q.Open() {
				continue
			}
			result, err := answer(q)
			if err != nil {
				return err
			}
			if result != nil && m.setAnswer(r, q.Number, result, nil) {
				answered = append(answered, q.Number)
			}
		}
		if len(answered) == 0 && !m.fleet.others() {
			return errUnchanged
		}
		return nil // a server that was cut off may have returned an earlier record: the write finds out
	})
	if err != nil {
		return err
	}
	for _, number := range answered {
		m.endClaim(inputRequestID{id, number}, nil)
	}
	return nil
}

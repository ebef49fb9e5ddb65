package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// Times of requests.
const (
	// attemptTimeout is the time for which one request waits for its response. Without a leader, a
	// stream sends no response.
	attemptTimeout = 2 * time.Second
	minPause       = 5 * time.Millisecond // the longest before the second attempt; doubles with each
	maxPause       = 500 * time.Millisecond
)

// Headers of published messages.
const (
	headerExpect = "Nats-Expected-Last-Subject-Sequence"
	// headerExpectSubject is the subject that headerExpect refers to, possibly with wildcards. The
	// default is the subject of the message.
	headerExpectSubject = "Nats-Expected-Last-Subject-Sequence-Subject"
	headerTTL           = "Nats-TTL"
	headerBatch         = "Nats-Batch-Id"
	headerBatchSeq      = "Nats-Batch-Sequence"
	headerCommit        = "Nats-Batch-Commit"
	headerSequence      = "Nats-Sequence"
	headerTime          = "Nats-Time-Stamp"
)

// Error codes of the server.
const (
	codeNoMessage         = 10037
	codeSequenceNotFound  = 10043
	codeMsgDeleteFailed   = 10057
	codeWrongSequence     = 10071
	codeSequenceInProcess = 10164 // another message with the subject is being written
	codeIncompleteBatch   = 10176
	codeTooManyBatches    = 10210
	codeStoreFailed       = 10077
	codeNoStorage         = 10047
	codeNoMemory          = 10028
	codeNoResources       = 10023
	codeAccountLimits     = 10002
)

// apiError is the error in the response of a server.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

// Error implements error.
func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// Is reports whether the stream has no space left.
func (e *apiError) Is(target error) bool {
	if target != ErrFull {
		return false
	}
	switch e.ErrCode {
	case codeStoreFailed:
		return strings.Contains(e.Description, "maximum")
	case codeNoStorage, codeNoMemory, codeNoResources, codeAccountLimits:
		return true
	}
	return false
}

// hasCode reports whether err is an error of the server with one of the given codes.
func hasCode(err error, codes ...int) bool {
	if e, ok := errors.AsType[*apiError](err); ok {
		for _, code := range codes {
			if e.ErrCode == code {
				return true
			}
		}
	}
	return false
}

// transient reports whether a request may succeed if it is repeated.
func transient(err error) bool {
	if e, ok := errors.AsType[*apiError](err); ok {
		return e.Code == 503 && !e.Is(ErrFull) || hasCode(err, codeIncompleteBatch, codeTooManyBatches)
	}
	for _, target := range []error{
		nats.ErrTimeout, context.DeadlineExceeded, nats.ErrNoResponders, nats.ErrDisconnected,
		nats.ErrConnectionReconnecting, nats.ErrStaleConnection, nats.ErrReconnectBufExceeded, errOutdated,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// retry calls attempt until it does not fail with a transient error. It gives up when ctx ends,
// with the error of ctx, or once the timeout of the store has passed. The pauses are random, so
// that concurrent calls whose attempts exclude each other, such as those of confirmLast, do not
// collide again.
func (s *store) retry(ctx context.Context, what string, attempt func(ctx context.Context) error) error {
	deadline := time.Now().Add(s.options.Timeout)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		if err := ctx.Err(); err != nil {
			return err
		}
		limited, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := attempt(limited)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, nats.ErrConnectionClosed) || s.lifetime.Err() != nil:
			return task.ErrClosed
		case !transient(err):
			return wrap(what, err)
		case time.Now().Add(pause).After(deadline):
			// The cause may be the end of the context of an attempt, not of that of the caller.
			return fmt.Errorf("jetstream: %s: %w after %v: %v", what, ErrUnavailable, s.options.Timeout, err)
		}
		select {
		case <-time.After(mathrand.N(pause)):
		case <-ctx.Done():
		case <-s.lifetime.Done():
			return task.ErrClosed
		}
	}
}

// wrap adds the operation to an error, except to errors of package task.
func wrap(what string, err error) error {
	for _, target := range []error{task.ErrNotFound, task.ErrExists, task.ErrConflict, task.ErrCorrupt, task.ErrClosed} {
		if errors.Is(err, target) {
			return err
		}
	}
	if hasFull := errors.Is(err, ErrFull); hasFull {
		return fmt.Errorf("jetstream: %s: %w: %w", what, ErrFull, err)
	}
	return fmt.Errorf("jetstream: %s: %w", what, err)
}

// publish publishes messages to one stream atomically, and returns the sequence of the last
// message. It makes one attempt.
func (s *store) publish(ctx context.Context, messages ...*nats.Msg) (seq uint64, err error) {
	last := len(messages) - 1
	if last > 0 {
		batch := nuid.Next()
		for i, m := range messages {
			m.Header.Set(headerBatch, batch)
			m.Header.Set(headerBatchSeq, strconv.Itoa(i+1))
			if i < last {
				if err := s.nc.PublishMsg(m); err != nil {
					return 0, err
				}
			}
		}
		messages[last].Header.Set(headerCommit, "1")
	}
	reply, err := s.nc.RequestMsgWithContext(ctx, messages[last])
	if err != nil {
		return 0, err
	}
	var ack struct {
		Error *apiError `json:"error"`
		Seq   uint64    `json:"seq"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return 0, fmt.Errorf("unexpected acknowledgement %.100q", reply.Data)
	}
	if ack.Error != nil {
		return 0, ack.Error
	}
	if ack.Seq == 0 {
		return 0, fmt.Errorf("unexpected acknowledgement %.100q", reply.Data)
	}
	return ack.Seq, nil
}

// message is a stored message.
type message struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

// call sends a request to the JetStream API and decodes the response, which has a member error.
func (s *store) call(ctx context.Context, subject string, request, response any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	reply, err := s.nc.RequestWithContext(ctx, s.api+subject, data)
	if err != nil {
		return err
	}
	// Decoding takes long compared with the search. Data cannot contain the quotes, because it is
	// encoded as Base64.
	if bytes.Contains(reply.Data, []byte(`"error"`)) {
		var failed struct {
			Error *apiError `json:"error"`
		}
		if err := json.Unmarshal(reply.Data, &failed); err != nil {
			return err
		}
		if failed.Error != nil {
			return failed.Error
		}
	}
	return json.Unmarshal(reply.Data, response)
}

// getRequest selects a message.
type getRequest struct {
	Seq   uint64 `json:"seq,omitempty"`
	Last  string `json:"last_by_subj,omitempty"`
	Next  string `json:"next_by_subj,omitempty"`
	Batch int    `json:"batch,omitempty"`
}

// read returns a message from the leader of a stream, or nil if there is none. It makes one
// attempt.
func (s *store) read(ctx context.Context, stream string, which getRequest) (*message, error) {
	var response struct {
		Message *message `json:"message"`
	}
	err := s.call(ctx, "STREAM.MSG.GET."+stream, which, &response)
	if hasCode(err, codeNoMessage) {
		return nil, nil
	}
	return response.Message, err
}

// last returns the last message of a subject from the leader of its stream, or nil if there is none.
func (s *store) last(ctx context.Context, operation, stream, subject string) (m *message, err error) {
	err = s.retry(ctx, operation, func(ctx context.Context) (err error) {
		m, err = s.read(ctx, stream, getRequest{Last: subject})
		return err
	})
	return m, err
}

// readAnywhere returns the last message of a subject from any replica, or nil if the replica has
// none. It makes one attempt.
func (s *store) readAnywhere(ctx context.Context, stream, subject string) (*message, error) {
	reply, err := s.nc.RequestWithContext(ctx, s.api+"DIRECT.GET."+stream+"."+subject, nil)
	if err != nil {
		return nil, err
	}
	switch status := reply.Header.Get("Status"); status {
	case "":
	case "404":
		return nil, nil
	default:
		return nil, fmt.Errorf("direct get: %s %s", status, reply.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(reply.Header.Get(headerSequence), 10, 64)
	return &message{Subject: subject, Seq: seq, Data: reply.Data}, err
}

// readBatch returns up to n messages of a subject with a sequence of at least from, in ascending
// order, from any replica. A replica may lag behind. It makes one attempt.
func (s *store) readBatch(ctx context.Context, stream, subject string, from uint64, n int) ([]message, error) {
	inbox := s.nc.NewInbox()
	replies := make(chan *nats.Msg, n+2)
	sub, err := s.nc.ChanSubscribe(inbox, replies)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	request, err := json.Marshal(getRequest{Seq: max(from, 1), Next: subject, Batch: n})
	if err != nil {
		return nil, err
	}
	if err := s.nc.PublishRequest(s.api+"DIRECT.GET."+stream, inbox, request); err != nil {
		return nil, err
	}
	var list []message
	for {
		var reply *nats.Msg
		select {
		case reply = <-replies:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch status := reply.Header.Get("Status"); status {
		case "204", "404": // end of the batch; no message
			return list, nil
		case "503":
			return nil, nats.ErrNoResponders
		case "":
		default:
			return nil, fmt.Errorf("direct get: %s %s", status, reply.Header.Get("Description"))
		}
		seq, err := strconv.ParseUint(reply.Header.Get(headerSequence), 10, 64)
		if err != nil {
			return nil, err
		}
		at, _ := time.Parse(time.RFC3339Nano, reply.Header.Get(headerTime))
		list = append(list, message{Subject: reply.Header.Get("Nats-Subject"), Seq: seq, Data: reply.Data, Time: at})
	}
}

// readNext returns the messages of a subject with a sequence of at least from, in ascending order.
// It returns up to n of them, and fewer only if the leader has no more.
func (s *store) readNext(ctx context.Context, stream, subject string, from uint64, n int) (list []message, err error) {
	for len(list) < n {
		more, err := s.readSome(ctx, stream, subject, from, n-len(list))
		if err != nil || len(more) == 0 {
			return list, err
		}
		list = append(list, more...)
		from = more[len(more)-1].Seq + 1
	}
	return list, nil
}

// readSome is readNext, but returns any number of messages if there are some.
func (s *store) readSome(ctx context.Context, stream, subject string, from uint64, n int) (list []message, err error) {
	err = s.retry(ctx, "read "+stream, func(ctx context.Context) (err error) {
		list, err = s.readBatch(ctx, stream, subject, from, n)
		if len(list) > 0 || err != nil {
			return err
		}
		// The replica has no more messages. It may lag behind.
		m, err := s.read(ctx, stream, getRequest{Seq: max(from, 1), Next: subject})
		if m != nil {
			list = append(list, *m)
		}
		return err
	})
	return list, err
}

// lastSequence returns the sequence of the last message of a stream, from the leader.
func (s *store) lastSequence(ctx context.Context, stream string) (uint64, error) {
	var response struct {
		State struct {
			Last uint64 `json:"last_seq"`
		} `json:"state"`
	}
	err := s.retry(ctx, "read "+stream, func(ctx context.Context) error {
		return s.call(ctx, "STREAM.INFO."+stream, struct{}{}, &response)
	})
	return response.State.Last, err
}

// remove deletes a message and reports whether it existed. It makes one attempt.
func (s *store) remove(ctx context.Context, stream string, seq uint64) (existed bool, err error) {
	var response struct {
		Success bool `json:"success"`
	}
	err = s.call(ctx, "STREAM.MSG.DELETE."+stream, struct {
		Seq     uint64 `json:"seq"`
		NoErase bool   `json:"no_erase"`
	}{seq, true}, &response)
	if hasCode(err, codeSequenceNotFound, codeNoMessage, codeMsgDeleteFailed) {
		return false, nil
	}
	return err == nil && response.Success, err
}

// list returns the subjects that match a filter and have messages, from the leader, in no particular
// order.
func (s *store) list(ctx context.Context, stream, filter string) (subjects []string, err error) {
	seen := make(map[string]bool)
	for offset, total := 0, 0; ; {
		var response struct {
			Total int `json:"total"`
			State struct {
				Subjects map[string]uint64 `json:"subjects"`
			} `json:"state"`
		}
		err := s.retry(ctx, "read "+stream, func(ctx context.Context) error {
			return s.call(ctx, "STREAM.INFO."+stream, struct {
				Filter string `json:"subjects_filter"`
				Offset int    `json:"offset,omitempty"`
			}{filter, offset}, &response)
		})
		if err != nil {
			return nil, err
		}
		for subject := range response.State.Subjects {
			if !seen[subject] {
				seen[subject] = true
				subjects = append(subjects, subject)
			}
		}
		if offset > 0 && response.Total < total {
			offset, total = 0, 0 // subjects were removed meanwhile, so others have moved to earlier pages
			continue
		}
		offset, total = offset+len(response.State.Subjects), response.Total
		if offset >= total || len(response.State.Subjects) == 0 {
			return subjects, nil
		}
	}
}

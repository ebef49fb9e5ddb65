package jetstreamstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/transport/streamable"
)

// message is a message of the stream.
type message struct {
	Seq     uint64    `json:"seq"`
	Subject string    `json:"subject"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

// errNoMessage is returned if no message matches.
var errNoMessage = errors.New("jetstreamstore: no such message")

// request calls the JetStream API. It tries again while there is no leader.
func (s *store) request(ctx context.Context, subject string, req any) ([]byte, error) {
	text, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("jetstreamstore: read: %w", err)
	}
	for {
		attempt, cancel := s.attempt(ctx)
		resp, err := s.js.Conn().RequestWithContext(attempt, s.api+subject, text)
		cancel()
		if err == nil {
			return resp.Data, nil
		}
		if !isTransient(err) || !sleep(ctx) {
			return nil, fmt.Errorf("jetstreamstore: read: %w", err)
		}
	}
}

// get returns the message that a request describes from the leader of a stream. Other replicas may
// be behind.
func (s *store) get(ctx context.Context, stream string, req map[string]any) (*message, error) {
	text, err := s.request(ctx, "STREAM.MSG.GET."+stream, req)
	if err != nil {
		return nil, err
	}
	var resp struct {
		Message message             `json:"message"`
		Error   *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(text, &resp); err != nil {
		return nil, fmt.Errorf("jetstreamstore: read: %w", err)
	}
	switch {
	case resp.Error != nil && resp.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, errNoMessage
	case resp.Error != nil:
		return nil, fmt.Errorf("jetstreamstore: read: %w", resp.Error)
	}
	return &resp.Message, nil
}

// newest returns the newest message with a subject of the sessions, which may have wildcards.
func (s *store) newest(ctx context.Context, subject string) (*message, error) {
	return s.get(ctx, s.o.Name, map[string]any{"last_by_subj": subject})
}

// Maximum number of messages of a batch, and the number of bytes after which it ends.
const (
	batchMessages = 256
	batchBytes    = 1 << 20
)

// lastSequenceHeader is the header field with the sequence of the previous message of the batch.
const lastSequenceHeader = "Nats-Last-Sequence"

// scan calls f with the messages of a subject from a sequence on, in order, until f returns false.
// It reads batches from any replica. If a replica does not have message upTo yet, scan tries again.
func (s *store) scan(ctx context.Context, subject string, from, upTo uint64, f func(*message) bool) error {
	for from <= upTo {
		next, more, err := s.batch(ctx, subject, from, f)
		switch {
		case err != nil:
			return err
		case !more:
			return nil
		case next > from:
			from = next
			continue
		}
		// Either the replica is behind, or the message was deleted meanwhile.
		if m, err := s.newest(ctx, subject); errors.Is(err, errNoMessage) || err == nil && m.Seq < from {
			return nil
		} else if err != nil {
			return err
		}
		if !sleep(ctx) {
			return fmt.Errorf("jetstreamstore: replica is behind: %w", context.Cause(ctx))
		}
	}
	return nil
}

// batch reads one batch. It returns the sequence after the last message; more is false once f has
// returned false.
func (s *store) batch(ctx context.Context, subject string, from uint64, f func(*message) bool) (next uint64, more bool, err error) {
	nc := s.js.Conn()
	text, err := json.Marshal(map[string]any{"seq": from, "next_by_subj": subject, "batch": batchMessages, "max_bytes": batchBytes})
	if err != nil {
		return 0, false, fmt.Errorf("jetstreamstore: read: %w", err)
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return 0, false, fmt.Errorf("jetstreamstore: read: %w", err)
	}
	defer sub.Unsubscribe() // fails only if the connection is closed
	if err := nc.PublishRequest(s.api+"DIRECT.GET."+s.o.Name, inbox, text); err != nil {
		return 0, false, fmt.Errorf("jetstreamstore: read: %w", err)
	}
	attempt, cancel := s.attempt(ctx)
	defer cancel()
	next = from
	for {
		m, err := sub.NextMsgWithContext(attempt)
		switch {
		case err != nil && isTransient(err) && ctx.Err() == nil:
			return next, true, nil // scan tries again
		case err != nil:
			return 0, false, fmt.Errorf("jetstreamstore: read: %w", err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case "204", "404", "503": // the end, no message, no replica
			return next, true, nil
		default:
			return 0, false, fmt.Errorf("jetstreamstore: read failed with status %q", status)
		}
		got := &message{Subject: m.Header.Get(jetstream.SubjectHeader), Data: m.Data}
		if got.Seq, err = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64); err != nil {
			return 0, false, fmt.Errorf("jetstreamstore: sequence of a message: %w", err)
		}
		if before := m.Header.Get(lastSequenceHeader); next > from && before != strconv.FormatUint(next-1, 10) {
			return next, true, nil // a message of the batch was lost on its way
		}
		got.Time, _ = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer)) // zero means old
		next = got.Seq + 1
		if !f(got) {
			return next, false, nil
		}
	}
}

// part is the content of a message of kindEvent: an event, or a part of a long one.
type part struct {
	streamable.Event        // Text is that of the part
	index            uint32 // of the part, from 0
	more             bool   // further parts follow
}

// The flags of a part.
const (
	flagText = 1 << iota
	flagLast
	flagMore
)

// partHeader is the length of an encoded part without its text, in bytes: the flags, the index and
// the number.
const partHeader = 1 + 4 + 8

func (p *part) encode() []byte {
	data := make([]byte, partHeader, partHeader+len(p.Text))
	if p.Text != nil {
		data[0] |= flagText
	}
	if p.Last {
		data[0] |= flagLast
	}
	if p.more {
		data[0] |= flagMore
	}
	binary.BigEndian.PutUint32(data[1:], p.index)
	binary.BigEndian.PutUint64(data[5:], p.Number)
	return append(data, p.Text...)
}

func decodePart(data []byte) (p part, ok bool) {
	if len(data) < partHeader {
		return p, false
	}
	p.Last, p.more = data[0]&flagLast != 0, data[0]&flagMore != 0
	p.index, p.Number = binary.BigEndian.Uint32(data[1:]), binary.BigEndian.Uint64(data[5:])
	if data[0]&flagText != 0 {
		p.Text = data[partHeader:]
	}
	return p, true
}

// assembler puts events together from the messages of one stream. A message may occur twice if the
// answer to the first attempt was lost. The rest of a long event may be missing if its process
// died. So the first complete event of each number counts.
type assembler struct {
	last uint64 // number of the last complete event
	next part   // the parts of the next event; its index is that of the next part
}

// add adds a message. complete reports whether it completes the event e.
func (a *assembler) add(data []byte) (e streamable.Event, complete bool) {
	p, ok := decodePart(data)
	switch {
	case !ok || p.Number <= a.last:
		return e, false
	case p.index == 0:
		a.next = part{Event: streamable.Event{Number: p.Number}}
	case p.Number != a.next.Number || p.index != a.next.index:
		return e, false
	}
	if p.index == 0 && !p.more {
		a.next.Text = p.Text
	} else {
		a.next.Text = append(a.next.Text, p.Text...)
	}
	a.next.index++
	if p.more {
		return e, false
	}
	a.last = p.Number
	e, a.next = a.next.Event, part{}
	e.Last = p.Last
	return e, true
}

// maxRead is the number of bytes of events after which a call of Events returns.
const maxRead = 1 << 20

// Events returns the next events of a stream after the event with the number after.
func (s *store) Events(ctx context.Context, session, stream string, after uint64) (events []streamable.Event, err error) {
	ctx, cancel := s.limitTime(ctx)
	defer cancel()
	key := token(session)
	subject := s.streamSubject(key, kindEvent, stream)
	last, err := s.newest(ctx, subject)
	switch {
	case errors.Is(err, errNoMessage):
		return nil, fmt.Errorf("%w: stream %.40q", streamable.ErrUnknown, stream)
	case err != nil:
		return nil, err
	}
	from := s.position(key, stream, after)
	size, number, seq := 0, after, from-1
	a := assembler{last: after}
	err = s.scan(ctx, subject, from, last.Seq, func(m *message) bool {
		e, complete := a.add(m.Data)
		if complete {
			events = append(events, e)
			size += len(e.Text) + overhead
			number, seq = e.Number, m.Seq
		}
		return size < maxRead
	})
	if err != nil {
		return nil, err
	}
	s.setPosition(key, stream, number, seq)
	return events, nil
}

// Load returns how a session was opened, and its streams.
func (s *store) Load(ctx context.Context, session string) (o streamable.Opening, streams []streamable.PersistedStream, err error) {
	ctx, cancel := s.limitTime(ctx)
	defer cancel()
	key := token(session)
	last, err := s.newest(ctx, s.subject(key, ">"))
	switch {
	case errors.Is(err, errNoMessage):
		return o, nil, streamable.ErrUnknown
	case err != nil:
		return o, nil, err
	}
	x := newEntry(s.now())
	assemblers := map[string]*assembler{}
	index := map[string]int{}
	stream := func(name string) *streamable.PersistedStream {
		i, ok := index[name]
		if !ok {
			i = len(streams)
			index[name] = i
			streams = append(streams, streamable.PersistedStream{Stream: name})
			assemblers[name] = &assembler{}
		}
		return &streams[i]
	}
	var opening, state []byte
	err = s.scan(ctx, s.subject(key, ">"), 1, last.Seq, func(m *message) bool {
		kind, name, ok := s.parseSubject(m.Subject)
		if !ok {
			return true
		}
		if kind != kindEvent && kind != kindBegin && m.Time.Before(x.refreshed) {
			x.refreshed = m.Time
		}
		switch kind {
		case kindOpening:
			opening = m.Data
		case kindState:
			state = append([]byte{}, m.Data...)
		case kindBegin:
			stream(name).Requests = append([]byte{}, m.Data...)
			x.begin(name, m.Seq, len(m.Data))
		case kindEvent:
			st := stream(name)
			x.add(m.Seq, len(m.Data), s.o.MaxSessionBytes)
			if e, complete := assemblers[name].add(m.Data); complete {
				st.Last = streamable.Event{Number: e.Number, Last: e.Last}
				if e.Last {
					x.answered(name)
				}
			}
		}
		return true
	})
	switch {
	case err != nil:
		return o, nil, err
	case opening == nil:
		return o, nil, streamable.ErrUnknown
	}
	if err := json.Unmarshal(opening, &o); err != nil {
		return o, nil, fmt.Errorf("jetstreamstore: opening of a session: %w", err)
	}
	if state != nil {
		o.State = state
	}
	s.loaded(key, x)
	return o, streams, nil
}

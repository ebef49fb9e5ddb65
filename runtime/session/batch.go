package session

import (
	"context"
	"sync"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/jsonrpc"
	"github.com/mcpwire/mcpwire/runtime/transport"
)

// batch is the Reply of all messages of a JSON-RPC batch. It collects their answers and sends them
// as one message. Only revision 2025-03-26 has batches.
type batch struct {
	s       *Session
	to      transport.Reply // of the batch; nil for the connection
	session uint32          // number of the session in which it arrived; see reopening

	mu   sync.Mutex
	open int // answers still missing, plus one for receiveBatch itself
	text []byte
	held int // bytes of the answers, counted by inbound
}

// receiveBatch serves the messages of a batch.
func (s *Session) receiveBatch(m transport.Message) {
	// The items are copies, so that one item does not retain the whole text.
	items, err := jsonrpc.ParseReceivedBatch(m.Text)
	if err != nil {
		s.refuse(jsonrpc.Message{}, err, m)
		return
	}
	b := &batch{s: s, to: m.Reply, session: m.Session, open: len(items) + 1}
	for _, item := range items {
		if !s.take(&item.Message, item.Err, &transport.Message{Text: item.Message.Params, Reply: b, Context: m.Context, Session: m.Session}) {
			b.skip()
		}
	}
	b.skip()
}

// failBatch fails the calls that a batch answers, in a revision without batches. It returns false
// if there are none. err is the error for the batch.
func (s *Session) failBatch(m transport.Message, err error) (ok bool) {
	items, _ := jsonrpc.ParseReceivedBatch(m.Text, codec.NoCopy())
	for i := range items {
		if kind := items[i].Message.Kind; kind == jsonrpc.KindResponse || kind == jsonrpc.KindErrorResponse {
			ok = s.answered(items[i].Message.ID, invalidAnswer(err)) || ok
		}
	}
	return ok
}

func (b *batch) Send(ctx context.Context, text []byte) error {
	return b.s.put(ctx, transport.Message{Text: text, Reply: b.to, Session: b.session})
}

// Answer adds an answer, or counts down without one. The bytes of answers count towards the limits
// until the batch is sent.
func (b *batch) Answer(_ context.Context, text []byte, _ *jsonrpc.Error) error {
	if text != nil {
		b.s.inbound.Hold(len(text))
		b.mu.Lock()
		b.held += len(text)
		b.text = append(append(b.text, ','), text...)
		b.mu.Unlock()
	}
	b.skip()
	return nil
}

// skip decrements the number of missing answers. When it becomes 0, skip sends the batch, if that
// has any answers.
func (b *batch) skip() {
	b.mu.Lock()
	b.open--
	last := b.open == 0
	b.mu.Unlock()
	switch {
	case last && len(b.text) > 0:
		b.text[0] = '['
		b.s.reply(response{b.to, append(b.text, ']'), nil, b.session})
		b.s.inbound.Hold(-b.held)
	case last && b.to != nil:
		b.s.reply(response{to: b.to, session: b.session})
	}
}

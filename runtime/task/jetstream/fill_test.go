package jetstream

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// Fill creates n tasks without waiting for each acknowledgement. The function record returns the
// ith. The tasks must have a TTL and small payloads, and need no holder.
func (opened *Store) Fill(ctx context.Context, n int, record func(i int) task.Record) error {
	s := opened.streams
	js, err := jetstream.New(s.nc, jetstream.WithPublishAsyncMaxPending(16384))
	if err != nil {
		return err
	}
	const some = 4096 // two messages of each are pending at once
	for first := 0; first < n; first += some {
		last := min(first+some, n)
		// The record has the sequence of its entry in the index of its owner.
		records := make([]task.Record, last-first)
		acks := make([]jetstream.PubAckFuture, 0, 2*len(records))
		publish := func(m *nats.Msg) error {
			ack, err := js.PublishMsgAsync(m)
			acks = append(acks, ack)
			return err
		}
		await := func() ([]uint64, error) {
			seqs := make([]uint64, len(acks))
			for i, ack := range acks {
				select {
				case ok := <-ack.Ok():
					seqs[i] = ok.Sequence
				case err := <-ack.Err():
					return nil, err
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			acks = acks[:0]
			return seqs, nil
		}
		for i := range records {
			r := record(first + i)
			r.Revision = 1
			records[i] = r
			_, prefix, owner := s.ownerPlace(r.Owner)
			ttl := ttlOf(&r, time.Now())
			if err := publish(newMessage(prefix+".o."+owner, []byte(r.ID), ttl)); err != nil {
				return err
			}
			due := prefix + ".d." + bucketOf(r.TTL, r.Expires()).token()
			if err := publish(newMessage(due, encodeDue(r.Expires(), r.ID), ttl)); err != nil {
				return err
			}
		}
		seqs, err := await()
		if err != nil {
			return err
		}
		for i, r := range records {
			r.Seq = seqs[2*i]
			c, err := s.prepare(nil, r, 0, nil)
			if err != nil {
				return err
			}
			messages, _ := c.messages(s.place(r.ID).record, 0, time.Now())
			if err := publish(messages[0]); err != nil {
				return err
			}
		}
		if _, err := await(); err != nil {
			return err
		}
	}
	return nil
}

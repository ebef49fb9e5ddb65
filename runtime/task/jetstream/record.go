package jetstream

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
	"github.com/mcpwire/mcpwire/runtime/task/internal/taskcode"
)

// Sizes of the contents of a record message. Larger contents are in parts.
const (
	maxInlineBody = 16 << 10 // bytes of payloads
	// maxInlineParams are the bytes of params that stay in the message while the other payloads are
	// in parts; see also taskcode.ParamsApart.
	maxInlineParams = 4 << 10
	maxTail         = 4 << 10 // bytes of entries
	maxPart         = 128 << 10
	maxBatch        = 1000 // messages that are published at once; a limit of the server
	maxParts        = 900  // parts that one write adds
)

// maxID is the maximum length of an id in bytes.
const maxID = 128

// token returns the token of a task in subjects.
func token(id string) string {
	plain := len(id) > 0
	for i := 0; i < len(id) && plain; i++ {
		c := id[i]
		plain = c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	if plain {
		return id
	}
	return "=" + base64.RawURLEncoding.EncodeToString([]byte(id))
}

// untoken returns the id of a token, or "" if the token is invalid.
func untoken(token string) string {
	encoded, ok := strings.CutPrefix(token, "=")
	if !ok {
		return token
	}
	id, _ := base64.RawURLEncoding.DecodeString(encoded)
	return string(id)
}

// stored is the content of the message of a record.
type stored struct {
	record task.Record
	seq    uint64 // of the message; 0 before it is published
	write  writeID
	// earlier are the ids of earlier writes, the latest first. By them, a writer whose
	// acknowledgement was lost recognises its write even after later writes.
	earlier []writeID
	// held is the sequence of the entry in the index of the holder. It is 0 if there is no entry,
	// and if an upgrade has added the entry.
	held   uint64
	body   blob     // the payloads, if they are in parts
	digest [16]byte // of the payloads, if they are in parts

	// The params are in the record or in parts, and then no other payload is in the same parts. In
	// records of earlier versions, they may be in body.
	params       blob
	paramsDigest [16]byte // zero if the params are in body

	// The journal consists of the entries in parts, followed by those of tail.
	journal blob
	flushed int // number of entries in parts
	tail    []task.Entry
}

// blobs returns the blobs that have parts.
func (s *stored) blobs() (list []*blob) {
	for _, b := range []*blob{&s.body, &s.params, &s.journal} {
		if b.parts > 0 {
			list = append(list, b)
		}
	}
	return list
}

// writeID is random. It identifies a write of a record.
type writeID [8]byte

// String returns the id as a header field.
func (id writeID) String() string { return hex.EncodeToString(id[:]) }

// maxEarlier is the maximum number of ids of earlier writes in a record.
const maxEarlier = 16

// includes reports whether a write is part of the record.
func (s *stored) includes(id writeID) bool { return s.write == id || slices.Contains(s.earlier, id) }

// blob is data in parts. Each part is a message. Parts are only added. The zero value has no parts.
type blob struct {
	generation [8]byte // random; part of the subjects
	parts      int
	size       uint64 // bytes
	sum        uint32 // CRC-32C
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The versions of the encoding, the first byte after the checksum. Version 1 has no held. A record
// is in the first version that has all of its fields, so that members of earlier versions of this
// package read it. Members refuse the versions that they do not know: they would not know which
// tasks they must leave to others.
const (
	format       = 2
	formatLabels = 3 // the head has labels
	formatPhase  = 4 // the head has a phase; see taskcode.Phased
	formatUndo   = 5 // the head says that the work must undo something; see taskcode.Undoes
	formatParams = 6 // the params follow after body; they are not part of it
	// formatSignals has signals, or names of signals; see taskcode.Signalled. The params may be in
	// the body.
	formatSignals = 7
)

// recordKey returns the key of a record for package taskcode.
func recordKey(r *task.Record) []byte { return binary.BigEndian.AppendUint64(nil, r.Seq) }

// digestOf returns a digest of payloads that are not empty.
func digestOf(payload []byte) (digest [16]byte) {
	sum := sha256.Sum256(payload)
	copy(digest[:], sum[:])
	return digest
}

// paramsApart reports whether the params are in parts, or in the message beside a body in parts.
func (s *stored) paramsApart() bool {
	return s.params.parts > 0 || s.body.parts > 0 && len(s.record.Params) > 0
}

// encode returns the data of the message. Body is the encoded payloads.
func (s *stored) encode(subject string, body []byte) []byte {
	key := recordKey(&s.record)
	head := taskcode.AppendHead(nil, key, &s.record)
	b := make([]byte, 4, 128+len(head)+len(body)+maxTail)
	switch {
	case taskcode.Signalled(&s.record):
		b = append(b, formatSignals)
	case s.paramsApart():
		b = append(b, formatParams)
	case taskcode.Undoes(&s.record):
		b = append(b, formatUndo)
	case taskcode.Phased(&s.record):
		b = append(b, formatPhase)
	case len(s.record.Labels) > 0:
		b = append(b, formatLabels)
	default:
		b = append(b, format)
	}
	b = append(b, s.write[:]...)
	b = append(b, byte(len(s.earlier)))
	for i := range s.earlier {
		b = append(b, s.earlier[i][:]...)
	}
	b = binary.AppendUvarint(b, s.record.Seq)
	b = s.body.append(b)
	if s.body.parts > 0 {
		b = append(b, s.digest[:]...)
	}
	if b[4] >= formatParams {
		switch b = s.params.append(b); {
		case s.params.parts > 0:
			b = append(b, s.paramsDigest[:]...)
		case s.paramsApart():
			b = appendBytes(b, s.record.Params)
		default:
			b = appendBytes(b, nil)
		}
	}
	b = s.journal.append(b)
	b = binary.AppendUvarint(b, uint64(s.flushed))
	b = binary.AppendUvarint(b, s.held)
	b = appendBytes(b, head)
	if s.body.parts == 0 {
		b = appendBytes(b, body)
	}
	b = append(b, encodeEntries(s.tail)...)
	binary.LittleEndian.PutUint32(b, crc32.Update(crc32.Checksum([]byte(subject), castagnoli), castagnoli, b[4:]))
	return b
}

func (s blob) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(s.parts))
	if s.parts == 0 {
		return b
	}
	b = append(b, s.generation[:]...)
	b = binary.AppendUvarint(b, s.size)
	return binary.LittleEndian.AppendUint32(b, s.sum)
}

func appendBytes(b, data []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}

// encodeEntries encodes entries one after the other.
func encodeEntries(entries []task.Entry) (b []byte) {
	for i := range entries {
		b = appendBytes(b, taskcode.EncodeEntry(nil, &entries[i]))
	}
	return b
}

// decodeEntries decodes what encodeEntries has encoded.
func decodeEntries(b []byte) (entries []task.Entry, err error) {
	p := parser{taskcode.Parser{Rest: b}}
	for len(p.Rest) > 0 && !p.Failed {
		e, err := taskcode.DecodeEntry(nil, p.Cut(p.Uint()))
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	if p.Failed {
		return nil, taskcode.ErrDamaged
	}
	return entries, nil
}

// decode decodes the message of a record. The payloads are missing if they are in parts.
func decode(m *message) (*stored, error) {
	if len(m.Data) < 5 || binary.LittleEndian.Uint32(m.Data) != crc32.Update(crc32.Checksum([]byte(m.Subject), castagnoli), castagnoli, m.Data[4:]) {
		return nil, corrupt(m, taskcode.ErrDamaged)
	}
	p := parser{taskcode.Parser{Rest: m.Data[4:]}}
	version := p.Cut(1)[0]
	if version < 1 || version > formatSignals {
		return nil, fmt.Errorf("jetstream: message %d has %w %d (this version reads %d)", m.Seq, errFormat, version, formatSignals)
	}
	s := &stored{seq: m.Seq}
	copy(s.write[:], p.Cut(8))
	for n := p.Byte(); n > 0 && !p.Failed; n-- {
		s.earlier = append(s.earlier, writeID{})
		copy(s.earlier[len(s.earlier)-1][:], p.Cut(8))
	}
	seq := p.Uint()
	if s.body = p.blob(); s.body.parts > 0 {
		copy(s.digest[:], p.Cut(16))
	}
	var params json.RawMessage
	if version >= formatParams {
		if s.params = p.blob(); s.params.parts > 0 {
			copy(s.paramsDigest[:], p.Cut(16))
		} else {
			params = bytes.Clone(p.Cut(p.Uint()))
		}
	}
	s.journal = p.blob()
	s.flushed = int(p.Uint())
	if version > 1 {
		s.held = p.Uint()
	}
	head := p.Cut(p.Uint())
	var body []byte
	if s.body.parts == 0 {
		body = p.Cut(p.Uint())
	}
	if p.Failed {
		return nil, corrupt(m, taskcode.ErrDamaged)
	}
	key := binary.BigEndian.AppendUint64(nil, seq)
	var err error
	if s.record, err = taskcode.DecodeBrief(key, head); err != nil {
		return nil, corrupt(m, err)
	}
	if s.body.parts == 0 {
		if err := taskcode.DecodeBody(key, body, &s.record); err != nil {
			return nil, corrupt(m, err)
		}
	}
	if len(params) > 0 {
		s.record.Params = params
	}
	if len(s.record.Params) > 0 {
		s.paramsDigest = digestOf(s.record.Params)
	}
	if s.tail, err = decodeEntries(p.Rest); err != nil {
		return nil, corrupt(m, err)
	}
	if s.flushed+len(s.tail) != taskcode.Recorded(s.record.Durable) {
		return nil, corrupt(m, taskcode.ErrDamaged)
	}
	return s, nil
}

// errFormat reports that a later version of this package has written a record.
var errFormat = errors.New("format")

func corrupt(m *message, err error) error {
	return fmt.Errorf("%w: message %d of %s: %w", task.ErrCorrupt, m.Seq, m.Subject, err)
}

// parser reads the values of a message.
type parser struct{ taskcode.Parser }

func (p *parser) blob() (b blob) {
	if b.parts = int(p.Uint()); b.parts == 0 {
		return b
	}
	copy(b.generation[:], p.Cut(8))
	b.size = p.Uint()
	if sum := p.Cut(4); sum != nil {
		b.sum = binary.LittleEndian.Uint32(sum)
	}
	return b
}

// change is a write of a record: the new message, and the parts that it adds and drops.
type change struct {
	store string // id of the Store that writes
	next  *stored
	value []byte
	added []part
	// dropped are the subjects of parts that are no longer used.
	dropped []string
}

// part is a message with a part of a blob.
type part struct {
	subject string
	data    []byte
}

// subject returns the subject of a part.
func (b *blob) subject(prefix, token string, n int) string {
	return prefix + ".p." + token + "." + hex.EncodeToString(b.generation[:]) + "." + strconv.Itoa(n)
}

// extend adds data to a blob and returns the parts to write.
func (b *blob) extend(prefix, token string, size int, data []byte) (added []part) {
	if b.parts == 0 {
		rand.Read(b.generation[:])
	}
	b.size += uint64(len(data))
	b.sum = crc32.Update(b.sum, castagnoli, data)
	for piece := range slices.Chunk(data, size) {
		added = append(added, part{b.subject(prefix, token, b.parts), piece})
		b.parts++
	}
	return added
}

// subjects returns the subjects of all parts.
func (b *blob) subjects(prefix, token string) (list []string) {
	for n := range b.parts {
		list = append(list, b.subject(prefix, token, n))
	}
	return list
}

// prepare returns the change from before to the record r, whose constant fields and Revision are
// set. Before is nil for a new record. Held is the sequence of the entry in the index of its
// holder. The function journal returns the first n entries of before.
func (s *store) prepare(before *stored, r task.Record, held uint64, journal func(n int) ([]task.Entry, error)) (*change, error) {
	at := s.place(r.ID)
	next := &stored{record: r, held: held}
	rand.Read(next.write[:])
	c := &change{store: s.id, next: next}
	if before == nil {
		before = new(stored)
	}

	// The journal.
	earlier, recorded := before.flushed+len(before.tail), taskcode.Recorded(r.Durable)
	var added []task.Entry
	if r.Durable != nil {
		added = r.Durable.Entries
	}
	stay := recorded - len(added)
	if stay < 0 || stay > earlier || recorded > taskcode.MaxEntries {
		return nil, fmt.Errorf("jetstream: journal of %d entries cannot have %d after %d are added", earlier, recorded, len(added))
	}
	if added != nil {
		d := *r.Durable
		d.Entries = nil
		next.record.Durable = &d
	}
	next.journal, next.flushed, next.tail = before.journal, before.flushed, before.tail
	if stay < before.flushed {
		c.dropped = append(c.dropped, before.journal.subjects(at.prefix, at.token)...)
		kept, err := journal(stay)
		if err != nil {
			return nil, err
		}
		next.journal, next.flushed, next.tail = blob{}, 0, kept
	} else {
		next.tail = next.tail[:stay-before.flushed]
	}
	next.tail = append(slices.Clip(next.tail), added...)
	if entries := encodeEntries(next.tail); len(entries) > maxTail {
		c.added = append(c.added, next.journal.extend(at.prefix, at.token, s.part, entries)...)
		next.flushed, next.tail = next.flushed+len(next.tail), nil
	}

	// The payloads. Only records with Durable identify input requests in later runs.
	if r.Durable == nil {
		next.record.InputRequests = slices.Clone(r.InputRequests)
		for i := range r.InputRequests {
			q := &next.record.InputRequests[i]
			q.Key, q.Occurrence, q.Branch, q.Position, q.Deadline = "", 0, "", 0, time.Time{}
		}
	}
	if len(r.Params) > 0 {
		next.paramsDigest = digestOf(r.Params)
	}
	inline := min(maxInlineBody, s.part)
	body := taskcode.AppendBody(nil, recordKey(&next.record), &next.record)
	rest := next.record
	rest.Params = nil
	if taskcode.ParamsApart(&r) || len(body) > inline && len(r.Params) > maxInlineParams {
		if before.params.parts > 0 && before.paramsDigest == next.paramsDigest {
			next.params = before.params
		} else {
			c.added = append(c.added, next.params.extend(at.prefix, at.token, s.part, r.Params)...)
		}
		body = taskcode.AppendBody(nil, recordKey(&rest), &rest)
	}
	if before.params.parts > 0 && before.params.generation != next.params.generation {
		c.dropped = append(c.dropped, before.params.subjects(at.prefix, at.token)...)
	}
	if len(body) > inline {
		body = taskcode.AppendBody(nil, recordKey(&rest), &rest)
		next.digest = digestOf(body)
		if before.body.parts > 0 && before.digest == next.digest {
			next.body = before.body
		} else {
			c.added = append(c.added, next.body.extend(at.prefix, at.token, s.part, body)...)
		}
	}
	if before.body.parts > 0 && before.body.generation != next.body.generation {
		c.dropped = append(c.dropped, before.body.subjects(at.prefix, at.token)...)
	}
	if len(c.added) > maxParts {
		return nil, &task.LimitError{Code: task.CodeTooManyBytes, Limit: int64(maxParts * s.part)}
	}
	if before.seq != 0 {
		next.earlier = append([]writeID{before.write}, before.earlier[:min(len(before.earlier), maxEarlier-1)]...)
	}
	c.value = next.encode(at.record, body)
	return c, nil
}

// tombstone is the lifetime of the empty message that replaces a dropped part.
const tombstone = 10 * time.Second

// messages returns the messages of the change; the last one is the message of the record. The
// servers accept them only if the last message of the record has the sequence expect. Rest are the
// subjects of dropped parts that do not fit into the batch.
func (c *change) messages(subject string, expect uint64, now time.Time) (list []*nats.Msg, rest []string) {
	ttl := ttlOf(&c.next.record, now)
	for _, part := range c.added {
		list = append(list, newMessage(part.subject, part.data, ttl))
	}
	n := min(len(c.dropped), maxBatch-1-len(list))
	for _, subject := range c.dropped[:n] {
		list = append(list, newMessage(subject, nil, tombstone))
	}
	m := newMessage(subject, c.value, ttl)
	m.Header.Set(headerStore, c.store)
	m.Header.Set(headerWrite, c.next.write.String())
	m.Header.Set(headerExpect, strconv.FormatUint(expect, 10))
	return append(list, m), c.dropped[n:]
}

// size returns about the number of bytes that the change adds to its stream.
func (c *change) size() int64 {
	n := len(c.value)
	for _, part := range c.added {
		n += len(part.data)
	}
	return int64(n)
}

// newMessage returns a message that the server removes after ttl, or never if ttl is 0.
func newMessage(subject string, data []byte, ttl time.Duration) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	if ttl > 0 {
		m.Header.Set(headerTTL, strconv.FormatInt(int64((ttl+time.Second-1)/time.Second), 10))
	}
	return m
}

// ttlOf returns the lifetime of the messages of a task; 0 means no limit. It is a safety net for
// tasks that no process sweeps.
func ttlOf(r *task.Record, now time.Time) time.Duration {
	const longest = 100 * 365 * 24 * time.Hour
	if r.TTL == 0 {
		return 0
	}
	left := max(r.Expires().Sub(now), 0)
	if left > longest {
		return 0
	}
	if r.Durable != nil && !task.Terminal(r.Status) {
		left += taskrules.MaxRetained // the work may register an undo with a later write
	}
	return left + serverMargin
}

// serverMargin is the time between the end of a task's lifetime and the removal of its messages by
// the servers.
const serverMargin = 24 * time.Hour

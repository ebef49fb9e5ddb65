// Package taskcode encodes the records of tasks for stores that persist them.
//
// A record consists of two blocks. The head contains the fields of a brief, the body the payloads.
// A store may keep the body of a record whose journal has entries apart from its head, and keeps
// each entry apart from both, so that a step of the work writes the head and an entry alone. Large
// params are a third block, apart from the body: they never change, so that no change of the record
// writes them again. A block is a CRC-32C, a length and the content. The CRC also covers a key, so
// that a value under a wrong key is detected. In the content, numbers are varints and strings are
// prefixed with their length.
//
// The first 8 bytes of the key of a record are its Seq in big-endian order. The Seq is not stored
// in the head. A key of an entry may be any bytes.
package taskcode

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/mcp"
	"github.com/mcpwire/mcpwire/runtime/internal/taskrules"
	"github.com/mcpwire/mcpwire/runtime/task"
)

// The versions of the encoding, the first byte of a head. A head is in the first one that has all
// of its fields, so that earlier versions of this package read it if they can.
const (
	formatPlain  = 1
	formatLabels = 2 // Labels follow at the end
	formatPhase  = 3 // Phase and Lost follow after that
	formatUndo   = 4 // Undos, Undo and UndoSince of Durable follow after that, if there is a Durable
	formatParams = 5 // the size of the params, which are apart from the body, follows after that
	// formatSignals has Awaits of Durable after that, and Signals at the end of the body. Undos,
	// Undo, UndoSince and the size of the params may be zero.
	formatSignals = 6
)

// headFormat returns the version of the encoding of a record.
func headFormat(r *task.Record) byte {
	switch {
	case Signalled(r):
		return formatSignals
	case ParamsApart(r):
		return formatParams
	case Undoes(r):
		return formatUndo
	case Phased(r):
		return formatPhase
	case len(r.Labels) > 0:
		return formatLabels
	}
	return formatPlain
}

// Phased reports whether the head of a record has a Phase or Lost, which earlier versions cannot
// read.
func Phased(r *task.Record) bool { return r.Phase != taskrules.PhaseRunning || len(r.Lost) > 0 }

// Undoes reports whether the head of a record says that the work must undo something, which earlier
// versions cannot read.
func Undoes(r *task.Record) bool {
	return r.Durable != nil && (r.Durable.Undos != 0 || r.Durable.Undo != taskrules.UndoNone)
}

// maxBodyParams is the maximum size of params that are in the body, in bytes.
const maxBodyParams = 16 << 10

// ParamsApart reports whether the params of a record are apart from its body. Earlier versions
// cannot read such a record.
func ParamsApart(r *task.Record) bool { return len(r.Params) > maxBodyParams }

// Signalled reports whether a record has signals or waits for some, which earlier versions cannot
// read.
func Signalled(r *task.Record) bool {
	return r.Durable != nil && (len(r.Durable.Signals) > 0 || len(r.Durable.Awaits) > 0)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrDamaged reports that the bytes of a record or of an entry are damaged.
var ErrDamaged = errors.New("damaged record")

// MaxEntries is the maximum number of entries in a journal.
const MaxEntries = math.MaxInt32

// Recorded returns the number of entries in a journal. d may be nil.
func Recorded(d *task.Durable) int {
	if d == nil {
		return 0
	}
	return d.Recorded
}

// EncodeRecord encodes a record whose journal has no entries.
func EncodeRecord(key []byte, r *task.Record) []byte {
	dst := make([]byte, 0, 256+len(r.StatusMessage)+min(len(r.Params), maxBodyParams)+len(r.Result)+len(r.Error))
	return AppendBody(AppendHead(dst, key, r), key, r)
}

// AppendHead appends the block of the head of a record.
func AppendHead(dst, key []byte, r *task.Record) []byte {
	return appendBlock(dst, key, func(b []byte) []byte {
		format := headFormat(r)
		b = append(b, format, flags(r))
		b = appendText(b, r.ID)
		b = appendText(b, r.Owner)
		b = binary.AppendUvarint(b, r.Revision)
		b = appendText(b, string(r.Status))
		b = appendText(b, r.StatusMessage)
		b = binary.AppendVarint(b, r.Created.UnixMicro())
		b = binary.AppendVarint(b, r.Updated.UnixMicro())
		b = binary.AppendVarint(b, int64(r.TTL))
		b = binary.AppendVarint(b, int64(r.PollInterval))
		b = appendText(b, r.Method)
		b = appendText(b, r.Token.String())
		b = appendText(b, r.Runner)
		b = appendText(b, r.Job)
		b = binary.AppendVarint(b, r.Bytes)
		if r.Reruns != 0 {
			b = binary.AppendUvarint(b, uint64(r.Reruns))
		}
		if r.Progress != nil {
			b = binary.AppendUvarint(b, math.Float64bits(*r.Progress))
		}
		if r.Name != "" {
			b = appendText(b, r.Name)
		}
		if r.Protocol != "" {
			b = appendText(b, string(r.Protocol))
		}
		if d := r.Durable; d != nil {
			b = appendText(b, d.Version)
			b = binary.AppendUvarint(b, d.LastInput)
			b = appendTime(b, d.Wake)
			b = binary.AppendUvarint(b, uint64(d.Recorded))
			b = binary.AppendUvarint(b, uint64(d.RecordedBytes))
		}
		if r.Claim != (task.Claim{}) || r.Trace != "" {
			b = appendText(b, r.Claim.Member)
			b = binary.AppendUvarint(b, r.Claim.Epoch)
			b = appendText(b, r.Trace)
		}
		if format >= formatLabels {
			b = appendTexts(b, r.Labels)
		}
		if format >= formatPhase {
			b = appendTexts(append(b, byte(r.Phase)), r.Lost)
		}
		if d := r.Durable; format >= formatUndo && d != nil {
			b = binary.AppendUvarint(b, uint64(d.Undos))
			b = appendTime(append(b, byte(d.Undo)), d.UndoSince)
		}
		if format >= formatParams {
			size := 0
			if ParamsApart(r) {
				size = len(r.Params)
			}
			b = binary.AppendUvarint(b, uint64(size))
		}
		if format >= formatSignals {
			b = appendTexts(b, r.Durable.Awaits)
		}
		return b
	})
}

// AppendBody appends the block of the payloads of a record, without its params if they are apart.
func AppendBody(dst, key []byte, r *task.Record) []byte {
	return appendBlock(dst, key, func(b []byte) []byte {
		if ParamsApart(r) {
			b = appendText(b, "")
		} else {
			b = appendText(b, r.Params)
		}
		b = appendText(b, r.Result)
		b = appendText(b, r.Error)
		b = binary.AppendUvarint(b, uint64(len(r.InputRequests)))
		for i := range r.InputRequests {
			q := &r.InputRequests[i]
			b = binary.AppendUvarint(b, q.Number)
			b = appendText(b, q.Method)
			b = appendText(b, q.Params)
			b = appendText(b, q.Result)
			b = appendText(b, q.Error)
		}
		if r.Durable == nil {
			return b
		}
		for i := range r.InputRequests {
			b = appendText(b, r.InputRequests[i].Key)
			b = binary.AppendUvarint(b, uint64(r.InputRequests[i].Occurrence))
		}
		signals := r.Durable.Signals
		if len(signals) == 0 && !slices.ContainsFunc(r.InputRequests, placed) {
			return b
		}
		for i := range r.InputRequests {
			q := &r.InputRequests[i]
			b = appendPlace(b, q.Branch, q.Position)
			b = appendTime(b, q.Deadline)
		}
		if len(signals) == 0 {
			return b
		}
		b = binary.AppendUvarint(b, uint64(len(signals)))
		for i := range signals {
			b = appendText(b, signals[i].ID)
			b = appendText(b, signals[i].Name)
			b = appendText(b, signals[i].Value)
		}
		return b
	})
}

// placed reports whether an input request has what earlier versions of this package did not store.
func placed(q task.InputRequest) bool {
	return q.Branch != "" || q.Position != 0 || !q.Deadline.IsZero()
}

// appendPlace appends the place of an operation of the work.
func appendPlace(b []byte, branch string, position int) []byte {
	return binary.AppendUvarint(appendText(b, branch), uint64(position))
}

// EncodeEntry encodes an entry of a journal.
func EncodeEntry(key []byte, e *task.Entry) []byte {
	dst := make([]byte, 0, 32+len(e.Branch)+len(e.Key)+len(e.Result))
	return appendBlock(dst, key, func(b []byte) []byte {
		failed := byte(0)
		if e.Failed {
			failed = 1
		}
		b = append(b, e.Kind, failed)
		b = appendText(b, e.Key)
		b = binary.AppendUvarint(b, uint64(e.Occurrence))
		b = appendText(b, e.Result)
		if e.Branch == "" && e.Position == 0 { // as in earlier versions of this package
			return b
		}
		return appendPlace(b, e.Branch, e.Position)
	})
}

// DecodeEntry decodes an entry of a journal. The entry does not share memory with data.
func DecodeEntry(key, data []byte) (e task.Entry, err error) {
	content, rest, err := block(key, data)
	if err != nil || len(rest) > 0 {
		return e, ErrDamaged
	}
	p := parser{Parser{Rest: content}}
	e = task.Entry{Kind: p.Byte(), Failed: p.Byte() == 1, Key: p.text(), Occurrence: int(p.Uint()), Result: p.raw()}
	if len(p.Rest) > 0 {
		e.Branch, e.Position = p.text(), int(p.Uint())
	}
	return e, p.end()
}

// appendTime appends a time with microsecond precision, or 0 for the zero time.
func appendTime(b []byte, t time.Time) []byte {
	if t.IsZero() {
		return binary.AppendVarint(b, 0)
	}
	return binary.AppendVarint(b, t.UnixMicro())
}

// Flags of a record.
const (
	flagRestartable = 1 << iota
	flagReruns      // Reruns follows at the end of the head
	flagProgress    // Progress follows after that
	flagName        // Name follows after that
	flagProtocol    // Protocol follows after that
	flagDurable     // Durable follows after that, and the body has the keys of the input requests
	flagParked      // Durable.Parked
	flagClaim       // Claim and Trace follow after that
)

func flags(r *task.Record) (f byte) {
	if r.Restartable {
		f |= flagRestartable
	}
	if r.Reruns != 0 {
		f |= flagReruns
	}
	if r.Progress != nil {
		f |= flagProgress
	}
	if r.Name != "" {
		f |= flagName
	}
	if r.Protocol != "" {
		f |= flagProtocol
	}
	if r.Durable != nil {
		f |= flagDurable
		if r.Durable.Parked {
			f |= flagParked
		}
	}
	if r.Claim != (task.Claim{}) || r.Trace != "" {
		f |= flagClaim
	}
	return f
}

func appendText[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func appendTexts(dst []byte, list []string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = appendText(dst, s)
	}
	return dst
}

const blockHead = 8 // checksum and length

func appendBlock(dst, key []byte, fill func([]byte) []byte) []byte {
	start := len(dst)
	dst = fill(append(dst, make([]byte, blockHead)...))
	content := dst[start+blockHead:]
	binary.LittleEndian.PutUint32(dst[start:], checksum(key, content))
	binary.LittleEndian.PutUint32(dst[start+4:], uint32(len(content)))
	return dst
}

func checksum(key, content []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, content)
}

// block splits the first block off data and verifies its checksum.
func block(key, data []byte) (content, rest []byte, err error) {
	if len(data) < blockHead {
		return nil, nil, ErrDamaged
	}
	sum, n := binary.LittleEndian.Uint32(data), uint64(binary.LittleEndian.Uint32(data[4:]))
	if data = data[blockHead:]; n > uint64(len(data)) {
		return nil, nil, ErrDamaged
	}
	if content = data[:n]; checksum(key, content) != sum {
		return nil, nil, ErrDamaged
	}
	return content, data[n:], nil
}

// DecodeBrief decodes the head of a record. The record does not share memory with data.
func DecodeBrief(key, data []byte) (task.Record, error) {
	r, _, err := DecodeHead(key, data)
	return r, err
}

// DecodeHead is DecodeBrief that also returns the size of the params if they are apart from the
// body, and otherwise 0.
func DecodeHead(key, data []byte) (r task.Record, params int, err error) {
	head, _, err := block(key, data)
	if err != nil {
		return r, 0, err
	}
	return decodeHead(key, head)
}

// DecodeRecord decodes a whole record. The functions return the blocks that are apart from the
// head: payload the body if the journal has entries, and params the params if they are apart from
// the body. They are not called otherwise. The record does not share memory with data.
func DecodeRecord(key, data []byte, payload, params func() []byte) (task.Record, error) {
	r, size, err := DecodeHead(key, data)
	if err != nil {
		return task.Record{}, err
	}
	body, err := bodyOf(key, data, &r, payload)
	if err == nil {
		err = DecodeBody(key, body, &r)
	}
	if err == nil && size > 0 {
		var content []byte
		content, err = DecodeParams(key, params(), size)
		r.Params = slices.Clone(content)
	}
	return r, err
}

// bodyOf returns the block of the body of a record, which holds the head; see DecodeRecord.
func bodyOf(key, data []byte, r *task.Record, payload func() []byte) ([]byte, error) {
	_, rest, err := block(key, data)
	if err != nil || Recorded(r.Durable) == 0 {
		return rest, err
	}
	if len(rest) > 0 {
		return nil, ErrDamaged
	}
	return payload(), nil
}

// EncodeParams encodes params that are apart from the body.
func EncodeParams(key []byte, params json.RawMessage) []byte {
	dst := make([]byte, 0, blockHead+len(params))
	return appendBlock(dst, key, func(b []byte) []byte { return append(b, params...) })
}

// DecodeParams decodes params that are apart from the body and have the given size. They share
// memory with data.
func DecodeParams(key, data []byte, size int) (json.RawMessage, error) {
	content, rest, err := block(key, data)
	if err != nil || len(rest) > 0 || len(content) != size {
		return nil, ErrDamaged
	}
	return content, nil
}

// BodyParams returns the params in the body of a record. Its arguments are those of DecodeRecord
// and the head. The params share memory with data.
func BodyParams(key, data []byte, r *task.Record, payload func() []byte) (json.RawMessage, error) {
	data, err := bodyOf(key, data, r, payload)
	if err != nil {
		return nil, err
	}
	body, _, err := block(key, data)
	p := parser{Parser{Rest: body}}
	params := p.Cut(p.Uint())
	if err != nil || p.Failed {
		return nil, ErrDamaged
	}
	return params, nil
}

// DecodeBody decodes the block of the payloads of a record into r, which holds the head. It sets
// Params to nil if they are apart from the body. The record does not share memory with data.
func DecodeBody(key, data []byte, r *task.Record) error {
	body, rest, err := block(key, data)
	if err != nil || len(rest) > 0 {
		return ErrDamaged
	}
	p := parser{Parser{Rest: body}}
	r.Params, r.Result, r.Error = p.raw(), p.raw(), p.raw()
	for n := p.Uint(); n > 0 && !p.Failed; n-- {
		r.InputRequests = append(r.InputRequests, task.InputRequest{
			Number: p.Uint(), Method: p.text(), Params: p.raw(), Result: p.raw(), Error: p.raw(),
		})
	}
	if r.Durable != nil {
		for i := range r.InputRequests {
			r.InputRequests[i].Key, r.InputRequests[i].Occurrence = p.text(), int(p.Uint())
		}
		if len(p.Rest) > 0 {
			for i := range r.InputRequests {
				q := &r.InputRequests[i]
				q.Branch, q.Position, q.Deadline = p.text(), int(p.Uint()), p.time()
			}
		}
		if len(p.Rest) > 0 {
			for n := p.Uint(); n > 0 && !p.Failed; n-- {
				r.Durable.Signals = append(r.Durable.Signals, task.Signal{ID: p.text(), Name: p.text(), Value: p.raw()})
			}
		}
	}
	return p.end()
}

func decodeHead(key, head []byte) (r task.Record, params int, err error) {
	p := parser{Parser{Rest: head}}
	format := p.Byte()
	if format < formatPlain || format > formatSignals {
		return r, 0, ErrDamaged
	}
	flags := p.Byte()
	r = task.Record{
		Seq:           binary.BigEndian.Uint64(key),
		Restartable:   flags&flagRestartable != 0,
		ID:            p.text(),
		Owner:         p.text(),
		Revision:      p.Uint(),
		Status:        mcp.TaskStatus(p.text()),
		StatusMessage: p.text(),
		Created:       time.UnixMicro(p.int()).UTC(),
		Updated:       time.UnixMicro(p.int()).UTC(),
		TTL:           time.Duration(p.int()),
		PollInterval:  time.Duration(p.int()),
		Method:        p.text(),
		Token:         p.token(),
		Runner:        p.text(),
		Job:           p.text(),
		Bytes:         p.int(),
	}
	if flags&flagReruns != 0 {
		r.Reruns = int(p.Uint())
	}
	if flags&flagProgress != 0 {
		sent := math.Float64frombits(p.Uint())
		p.Failed = p.Failed || math.IsNaN(sent)
		r.Progress = &sent
	}
	if flags&flagName != 0 {
		r.Name = p.text()
	}
	if flags&flagProtocol != 0 {
		r.Protocol = mcp.Revision(p.text())
	}
	if flags&flagDurable != 0 {
		r.Durable = &task.Durable{
			Parked: flags&flagParked != 0, Version: p.text(), LastInput: p.Uint(), Wake: p.time(),
			Recorded: int(p.Uint()), RecordedBytes: int64(p.Uint()),
		}
		p.Failed = p.Failed || r.Durable.Recorded < 0 || r.Durable.Recorded > MaxEntries
	}
	if flags&flagClaim != 0 {
		r.Claim = task.Claim{Member: p.text(), Epoch: p.Uint()}
		r.Trace = p.text()
	}
	if format >= formatLabels {
		r.Labels = p.texts()
	}
	if format >= formatPhase {
		r.Phase, r.Lost = uint8(p.Byte()), p.texts()
		p.Failed = p.Failed || r.Phase > taskrules.PhaseDoomed
	}
	if d := r.Durable; format >= formatUndo && d != nil {
		d.Undos, d.Undo, d.UndoSince = int(p.Uint()), taskrules.Undo(p.Byte()), p.time()
		p.Failed = p.Failed || d.Undos < 0 || d.Undo > taskrules.UndoExpired
	}
	p.Failed = p.Failed || format == formatUndo && !Undoes(&r)
	if format >= formatParams {
		params = int(p.Uint())
		p.Failed = p.Failed || params <= maxBodyParams && (format == formatParams || params != 0) || params > math.MaxInt32
	}
	if format >= formatSignals {
		if r.Durable == nil {
			return r, 0, ErrDamaged
		}
		r.Durable.Awaits = p.texts()
	}
	return r, params, p.end()
}

// Parser reads the values that the functions of this package, or of package encoding/binary, have
// appended. After a failure it returns zero values.
type Parser struct {
	Rest   []byte // what was not read yet
	Failed bool
}

// Cut reads n bytes. They share the memory of the text.
func (p *Parser) Cut(n uint64) []byte {
	if n > uint64(len(p.Rest)) {
		p.Failed, p.Rest = true, nil
		return nil
	}
	s := p.Rest[:n]
	p.Rest = p.Rest[n:]
	return s
}

// Byte reads one byte.
func (p *Parser) Byte() byte {
	if b := p.Cut(1); b != nil {
		return b[0]
	}
	return 0
}

// Uint reads an unsigned varint.
func (p *Parser) Uint() uint64 {
	v, n := binary.Uvarint(p.Rest)
	if n <= 0 {
		p.Failed, n = true, 0
	}
	p.Rest = p.Rest[n:]
	return v
}

// parser is a Parser for the values of a record.
type parser struct{ Parser }

func (p *parser) end() error {
	if p.Failed || len(p.Rest) > 0 {
		return ErrDamaged
	}
	return nil
}

func (p *parser) int() int64 {
	v, n := binary.Varint(p.Rest)
	if n <= 0 {
		p.Failed, n = true, 0
	}
	p.Rest = p.Rest[n:]
	return v
}

func (p *parser) time() time.Time {
	if t := p.int(); t != 0 {
		return time.UnixMicro(t).UTC()
	}
	return time.Time{}
}

func (p *parser) text() string { return string(p.Cut(p.Uint())) }

func (p *parser) texts() (list []string) {
	for n := p.Uint(); n > 0 && !p.Failed; n-- {
		list = append(list, p.text())
	}
	return list
}

// raw returns a copy of a payload, or nil for an empty one, which stands for an absent payload.
func (p *parser) raw() json.RawMessage {
	if s := p.Cut(p.Uint()); len(s) > 0 {
		return append(json.RawMessage(nil), s...)
	}
	return nil
}

func (p *parser) token() (t mcp.ProgressToken) {
	if s := p.Cut(p.Uint()); len(s) > 0 {
		p.Failed = codec.Unmarshal(s, &t) != nil || p.Failed
	}
	return t
}

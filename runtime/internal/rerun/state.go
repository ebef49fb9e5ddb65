package rerun

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"
)

// State is the state of a plain call between two rounds.
type State struct {
	Call    string // random id of the call, the same in all rounds
	Version string // of the handler; a version that does not accept it must not continue the call
	Round   int    // the number of rounds that have ended
	Expires time.Time
	Entries []Entry
	// Asked are the input requests that ended the last round, and those of earlier rounds that the
	// last run has not made again; see [Log.Left].
	Asked []Asked

	// Unversioned is set in a state that an earlier version of this module has sealed without the
	// version of the handler.
	Unversioned bool
}

// Asked is an input request whose response is expected with the next round.
type Asked struct {
	ID
	Position int // as in an [Entry]
	Label    string
	Method   string
	Params   json.RawMessage // not part of the state
	Name     string          // the key of the request and its response in messages; "" for none
	Deadline time.Time       // when the request is given up; zero for never
}

// Entry returns the entry that records the response to the request.
func (a *Asked) Entry(answer json.RawMessage) Entry {
	return Entry{ID: a.ID, Position: a.Position, Label: a.Label, Result: answer}
}

// The first byte of an encoded state changes with the format. A state of serverFormat has the
// version of the server in place of that of the handler. Earlier states than those of stateFormat
// have no branches, positions and deadlines.
const (
	serverFormat  = 1
	versionFormat = 2
	stateFormat   = 3
)

// append appends the encoded state. All numbers are uvarints, and texts follow their lengths.
func (s *State) append(dst []byte) []byte {
	dst = append(dst, stateFormat)
	dst = appendText(dst, s.Call)
	dst = appendText(dst, s.Version)
	dst = binary.AppendUvarint(dst, uint64(s.Round))
	dst = binary.AppendUvarint(dst, uint64(max(s.Expires.Unix(), 0)))
	dst = binary.AppendUvarint(dst, uint64(len(s.Entries)))
	for i := range s.Entries {
		e := &s.Entries[i]
		dst = appendPlace(dst, e.ID, e.Position)
		failed := byte(0)
		if e.Failed {
			failed = 1
		}
		dst = append(dst, failed)
		dst = appendText(dst, e.Label)
		dst = appendText(dst, e.Result)
	}
	dst = binary.AppendUvarint(dst, uint64(len(s.Asked)))
	for i := range s.Asked {
		a := &s.Asked[i]
		dst = appendPlace(dst, a.ID, a.Position)
		dst = appendText(dst, a.Label)
		dst = appendText(dst, a.Method)
		dst = appendText(dst, a.Name)
		deadline := int64(0)
		if !a.Deadline.IsZero() {
			deadline = max(a.Deadline.UnixMicro(), 0)
		}
		dst = binary.AppendUvarint(dst, uint64(deadline))
	}
	return dst
}

func appendPlace(dst []byte, id ID, position int) []byte {
	dst = append(dst, byte(id.Kind))
	dst = appendText(dst, id.Key)
	dst = binary.AppendUvarint(dst, uint64(id.Occurrence))
	dst = appendText(dst, id.Branch)
	return binary.AppendUvarint(dst, uint64(position))
}

var errState = errors.New("rerun: damaged state")

// decodeState decodes a state. Results share the memory of text.
func decodeState(text []byte) (*State, error) {
	d := decoder{text: text}
	format := d.byte()
	if d.old = format < stateFormat; format < serverFormat || format > stateFormat {
		return nil, errState
	}
	s := &State{Unversioned: format == serverFormat}
	s.Call, s.Version = string(d.bytes()), string(d.bytes())
	if s.Unversioned {
		s.Version = ""
	}
	s.Round = d.int()
	s.Expires = time.Unix(int64(d.int()), 0)
	if n := d.count(); n > 0 {
		s.Entries = make([]Entry, n)
		for i := range s.Entries {
			e := &s.Entries[i]
			e.ID, e.Position = d.place()
			e.Failed = d.byte() == 1
			e.Label, e.Result = string(d.bytes()), d.bytes()
		}
	}
	if n := d.count(); n > 0 {
		s.Asked = make([]Asked, n)
		for i := range s.Asked {
			a := &s.Asked[i]
			a.ID, a.Position = d.place()
			a.Label, a.Method, a.Name = string(d.bytes()), string(d.bytes()), string(d.bytes())
			if !d.old {
				if deadline := d.int(); deadline > 0 {
					a.Deadline = time.UnixMicro(int64(deadline)).UTC()
				}
			}
		}
	}
	if d.failed || len(d.text) > 0 {
		return nil, errState
	}
	return s, nil
}

// decoder reads the parts of an encoded state. After a failure, it returns zero values.
type decoder struct {
	text   []byte
	old    bool // the text has an earlier format
	failed bool
}

func (d *decoder) fail() {
	d.failed, d.text = true, nil
}

func (d *decoder) byte() byte {
	if len(d.text) == 0 {
		d.fail()
		return 0
	}
	b := d.text[0]
	d.text = d.text[1:]
	return b
}

// int reads a number that fits 62 bits.
func (d *decoder) int() int {
	v, n := binary.Uvarint(d.text)
	if n <= 0 || v >= 1<<62 {
		d.fail()
		return 0
	}
	d.text = d.text[n:]
	return int(v)
}

// count reads the number of entries that follow, each of which takes more than a byte.
func (d *decoder) count() int {
	n := d.int()
	if n > len(d.text) {
		d.fail()
		return 0
	}
	return n
}

func (d *decoder) bytes() []byte {
	n := d.int()
	if n > len(d.text) {
		d.fail()
		return nil
	}
	b := d.text[:n:n]
	d.text = d.text[n:]
	return b
}

func (d *decoder) place() (id ID, position int) {
	id = ID{Kind: Kind(d.byte()), Key: string(d.bytes()), Occurrence: d.int()}
	if d.old {
		return id, 0
	}
	id.Branch = string(d.bytes())
	return id, d.int()
}

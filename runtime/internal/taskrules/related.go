package taskrules

import (
	"encoding/json"

	"github.com/mcpwire/mcpwire/codec"
	"github.com/mcpwire/mcpwire/codec/wire"
	"github.com/mcpwire/mcpwire/runtime/internal/boundary"
)

// RelatedTask is the key in _meta under which a message names its task (MCP tasks, "Related Task
// Metadata").
const RelatedTask = "io.modelcontextprotocol/related-task"

// Relate returns object, the params or the result of a message, with the task in its _meta. All
// other bytes stay as they are. An empty text is treated as {}. Relate fails if the text is not a
// JSON object.
func Relate(object json.RawMessage, id string) (json.RawMessage, error) {
	// RelateValid finds the position of the edit without checking the syntax.
	if len(object) > 0 {
		if err := codec.Valid(object, codec.AllowSize(object)...); err != nil {
			return nil, err
		}
	}
	return RelateValid(object, id)
}

// RelateValid is Relate for text that is known to be well-formed, such as newly encoded text.
func RelateValid(object json.RawMessage, id string) (json.RawMessage, error) {
	meta, err := relatedMeta(id)
	if err != nil {
		return nil, err
	}
	if len(object) == 0 {
		object = json.RawMessage(`{}`)
	}
	from, to, insert, err := metaEdit(object, meta)
	if err != nil {
		return nil, err
	}
	out := make(json.RawMessage, 0, len(object)+len(insert))
	out = append(out, object[:from]...)
	out = append(out, insert...)
	return append(out, object[to:]...), nil
}

// RelateParams encodes params, which may be nil, and adds the task to their _meta.
func RelateParams(params codec.Encoder, id string) (raw json.RawMessage, err error) {
	if params != nil {
		if raw, err = boundary.Marshal(params); err != nil {
			return nil, err
		}
	}
	return RelateValid(raw, id)
}

// metaBegin is the prefix of the value of relatedMeta.
const metaBegin = `"_meta":{`

// relatedMeta returns a _meta member with the related task, followed by a comma. Every text that
// metaEdit inserts is a part of it.
func relatedMeta(id string) ([]byte, error) {
	w := wire.NewWriter(make([]byte, 0, 112))
	w.Lit(metaBegin + `"` + RelatedTask + `":{"taskId":`)
	w.Text(id)
	w.Lit(`}},`)
	return w.Bytes(), w.Failure().Err
}

// metaEdit returns the edit that adds the related task to object: it replaces object[from:to] by
// insert. It may modify meta.
func metaEdit(object, meta []byte) (from, to int64, insert []byte, err error) {
	err = codec.ReadPart(object, func(r *wire.Reader) { from, to, insert = metaEditIn(r, meta) })
	return from, to, insert, err
}

// metaEditIn is metaEdit for the object that r reads.
func metaEditIn(r *wire.Reader, meta []byte) (from, to int64, insert []byte) {
	start := int64(r.Offset())
	value := meta[len(metaBegin)-1 : len(meta)-1]
	related := value[1 : len(value)-1]
	found := false
	members := 0
	r.Object()
	for name, more := r.NextKey(); more; name, more = r.NextKey() {
		members++
		at := int64(r.Offset())
		if string(name) != "_meta" {
			r.Skip()
			continue
		}
		found = true
		if r.Kind() != wire.KindObject {
			r.Skip()
			from, to, insert = at, int64(r.Offset()), value
			continue
		}
		from, to, insert = metaObjectEdit(r, at, related)
	}
	r.End()
	if !found {
		insert = meta
		if members == 0 {
			insert = meta[:len(meta)-1]
		}
		from, to = start+1, start+1
	}
	return from, to, insert
}

// metaObjectEdit is metaEdit for the _meta object that r is about to read, which starts at offset
// at.
func metaObjectEdit(r *wire.Reader, at int64, related []byte) (from, to int64, insert []byte) {
	members, found := 0, false
	r.Object()
	for name, more := r.NextKey(); more; name, more = r.NextKey() {
		members++
		same := string(name) == RelatedTask
		begin := int64(r.KeyOffset())
		r.Skip()
		if same {
			found = true
			from, to, insert = begin, int64(r.Offset()), related
		}
	}
	if found {
		return from, to, insert
	}
	insert = related
	if members > 0 {
		insert = append(related, ',')
	}
	return at + 1, at + 1, insert
}

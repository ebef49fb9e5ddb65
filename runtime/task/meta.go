package task

import (
	"encoding/json"
	"errors"

	"github.com/mcpwire/mcpwire/codec"
)

// RelatedTask is the key in _meta that says which task a message belongs to (MCP tasks,
// "Related Task Metadata").
const RelatedTask = "io.modelcontextprotocol/related-task"

// Relate returns a JSON object, which is the params or the result of a message, with the task
// in its _meta. Everything else stays as it is, byte for byte. No object, an empty text, is taken
// for {}; an error says that the text is something else.
func Relate(object json.RawMessage, id string) (json.RawMessage, error) {
	// To find the place, names need only be compared; that all of it is well formed is another matter.
	if len(object) > 0 {
		if err := codec.Valid(object, codec.AllowSize(object)...); err != nil {
			return nil, err
		}
	}
	return relate(object, id)
}

// relate is Relate for what is known to be well formed, such as what was just encoded.
func relate(object json.RawMessage, id string) (json.RawMessage, error) {
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

// metaBegin is what relatedMeta begins with.
const metaBegin = `"_meta":{`

// relatedMeta returns _meta with the related task in it, as a member that others follow. All that
// relatedPlace inserts is a part of it.
func relatedMeta(id string) ([]byte, error) {
	w := codec.NewWriter(make([]byte, 0, 112))
	w.Lit(metaBegin + `"` + RelatedTask + `":{"taskId":`)
	w.Text(id)
	w.Lit(`}},`)
	return w.Bytes(), w.Err()
}

// relatedPlace finds what to put in the place of object[from:to]. It may change meta.
func metaEdit(object, meta []byte) (from, to int64, insert []byte, err error) {
	r := codec.Borrow(object, codec.AllowSize(object)...)
	defer func() { err = errors.Join(err, r.Release()) }()
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
		if r.Kind() != codec.KindObject {
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
	return from, to, insert, nil
}

// relatedIn is relatedPlace for the _meta object that is next in r, at an offset.
func metaObjectEdit(r *codec.Reader, at int64, related []byte) (from, to int64, insert []byte) {
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

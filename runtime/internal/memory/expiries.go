package memory

// expiries is a heap of the entries that expire, ordered by expiry time. The heap is changed under
// the store's lock, so its steps are kept short in two ways: expiry times are copied into the heap,
// because the entries are scattered in memory, and it grows by blocks, because copying a heap of a
// million entries would take milliseconds.
type expiries struct {
	blocks []*[expiryBlock]expiry
	len    int
}

const expiryBlock = 256

type expiry struct {
	at int64 // microseconds since 1970, rounded down
	*entry
}

func (a *expiry) before(b *expiry) bool {
	return a.at < b.at || a.at == b.at && a.Expires().Before(b.Expires())
}

func (x *expiries) at(i int) *expiry { return &x.blocks[i/expiryBlock][i%expiryBlock] }

// add adds an entry whose TTL is not 0.
func (x *expiries) add(e *entry) {
	if x.len == len(x.blocks)*expiryBlock {
		x.blocks = append(x.blocks, new([expiryBlock]expiry))
	}
	added := expiry{e.Expires().UnixMicro(), e}
	i := x.len
	x.len++
	for i > 0 {
		parent := x.at((i - 1) / 2)
		if !added.before(parent) {
			break
		}
		*x.at(i) = *parent
		i = (i - 1) / 2
	}
	*x.at(i) = added
}

// removeFirst removes the entry that expires next. The heap must not be empty.
func (x *expiries) removeFirst() {
	x.len--
	moved := *x.at(x.len)
	*x.at(x.len) = expiry{}
	if spare := x.len/expiryBlock + 2; spare < len(x.blocks) {
		x.blocks[spare] = nil
		x.blocks = x.blocks[:spare]
	}
	if x.len == 0 {
		return
	}
	i := 0
	for child := 1; child < x.len; child = 2*i + 1 {
		if child+1 < x.len && x.at(child+1).before(x.at(child)) {
			child++
		}
		if !x.at(child).before(&moved) {
			break
		}
		*x.at(i) = *x.at(child)
		i = child
	}
	*x.at(i) = moved
}

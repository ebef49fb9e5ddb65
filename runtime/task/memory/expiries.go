package memory

// expiries is a heap of the entries that expire, the next one first. What is compared stands in the
// heap itself: the entries lie all over the memory, and others wait for the lock meanwhile. For their
// sake, too, it grows by blocks: to move a heap of a million would take milliseconds.
type expiries struct {
	blocks []*[expiryBlock]expiry
	len    int
}

const expiryBlock = 256

type expiry struct {
	at int64 // microseconds since 1970, rounded
	*entry
}

func (a *expiry) before(b *expiry) bool {
	return a.at < b.at || a.at == b.at && a.Expires().Before(b.Expires())
}

func (x *expiries) at(i int) *expiry { return &x.blocks[i/expiryBlock][i%expiryBlock] }

// add adds an entry, which expires.
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

// removeFirst takes out the entry that expires next. There must be one.
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

package memory

// expiries is a heap of the entries that expire, the next one first. What is compared stands in the
// heap itself: the entries lie all over the memory, and others wait for the lock meanwhile.
type expiries []expiry

type expiry struct {
	at int64 // microseconds since 1970, rounded
	*entry
}

func (a *expiry) before(b *expiry) bool {
	return a.at < b.at || a.at == b.at && a.Expires().Before(b.Expires())
}

// add adds an entry, which expires.
func (x *expiries) add(e *entry) {
	*x = append(*x, expiry{e.Expires().UnixMicro(), e})
	heap, i := *x, len(*x)-1
	for i > 0 {
		parent := (i - 1) / 2
		if !heap[i].before(&heap[parent]) {
			return
		}
		heap[i], heap[parent] = heap[parent], heap[i]
		i = parent
	}
}

// removeFirst takes out the entry that expires next. There must be one.
func (x *expiries) removeFirst() {
	last := len(*x) - 1
	heap := (*x)[:last]
	moved := (*x)[last]
	(*x)[last] = expiry{}
	*x = heap
	i := 0
	for child := 1; child < last; child = 2*i + 1 {
		if child+1 < last && heap[child+1].before(&heap[child]) {
			child++
		}
		if !heap[child].before(&moved) {
			break
		}
		heap[i] = heap[child]
		i = child
	}
	if last > 0 {
		heap[i] = moved
	}
}

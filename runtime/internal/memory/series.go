package memory

import (
	"slices"
	"sort"

	"github.com/mcpwire/mcpwire/runtime/task"
)

// series holds the tasks of one owner, ordered by Seq. Entries are appended at the end and removed
// anywhere, so it is a list of blocks of limited size: no operation moves more than one block of
// entries and the list of blocks.
type series struct {
	blocks [][]*entry // none is empty
}

const blockSize = 512

// add appends an entry. Its Seq must be the greatest so far.
func (s *series) add(e *entry) {
	if n := len(s.blocks); n > 0 && len(s.blocks[n-1]) < blockSize {
		s.blocks[n-1] = append(s.blocks[n-1], e)
		return
	}
	s.blocks = append(s.blocks, append(make([]*entry, 0, 4), e))
}

// remove removes the entry with a Seq and reports whether the series is empty.
func (s *series) remove(seq uint64) (empty bool) {
	i, j := s.find(seq)
	if block := slices.Delete(s.blocks[i], j, j+1); len(block) > 0 {
		s.blocks[i] = block
	} else {
		s.blocks = slices.Delete(s.blocks, i, i+1)
	}
	return len(s.blocks) == 0
}

// find returns the position of the first entry with at least that Seq: block i, index j. If there
// is no such entry, i is the number of blocks.
func (s *series) find(seq uint64) (i, j int) {
	i = sort.Search(len(s.blocks), func(i int) bool {
		block := s.blocks[i]
		return block[len(block)-1].Seq >= seq
	})
	if i < len(s.blocks) {
		block := s.blocks[i]
		j = sort.Search(len(block), func(j int) bool { return block[j].Seq >= seq })
	}
	return i, j
}

// list returns the briefs of at most limit entries whose Seq is greater than after.
func (s *series) list(after uint64, limit int) []task.Record {
	if after+1 == 0 {
		return nil
	}
	var list []task.Record
	for i, j := s.find(after + 1); i < len(s.blocks); i, j = i+1, 0 {
		for _, e := range s.blocks[i][j:] {
			if len(list) == limit {
				return list
			}
			if list == nil {
				list = make([]task.Record, 0, min(limit, blockSize))
			}
			list = append(list, e.Brief())
		}
	}
	return list
}

package event

// wordBits is how many kinds one word of a mask has room for.
const wordBits = 64

// mask is a set of kinds: bit k%64 of word k/64. There is room for every value that a
// Kind can have, so a number that is no kind is looked up as any other, and not found.
type mask [1 << 8 / wordBits]uint64

// maskOf returns the set of only; that of all kinds if only is empty. None, and what is
// no kind, is in neither.
func maskOf(only []Kind) (m mask) {
	if len(only) == 0 {
		for k := None + 1; k < kinds; k++ {
			m.put(k)
		}
		return m
	}
	for _, k := range only {
		if k != None && k < kinds {
			m.put(k)
		}
	}
	return m
}

func (m *mask) put(k Kind) { m[k/wordBits] |= 1 << (k % wordBits) }

func (m *mask) has(k Kind) bool { return m[k/wordBits]&(1<<(k%wordBits)) != 0 }

// add puts in what is in o.
func (m *mask) add(o mask) {
	for i := range m {
		m[i] |= o[i]
	}
}

package limiter

// limitInForce is a limit that SetLimit lowers at once and raises later.
type limitInForce struct {
	limit int64
	next  int64  // limit, or more
	from  uint64 // when next counts, if it is more
}

func (l *limitInForce) turn(t uint64) {
	if t >= l.from {
		l.limit = l.next
	}
}

func (l *limitInForce) set(limit int64, from uint64) {
	if l.limit == l.next {
		l.from = from // else a raise waits already, and what is new counts with it
	}
	l.limit, l.next = min(limit, l.limit), limit
}

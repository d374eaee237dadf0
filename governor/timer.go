package governor

// timer is a request in core.timers.
type timer request

// When is the end of a backoff for a request that is in no lane, and otherwise
// the latest start, unless that is its context's deadline: then its watch tells.
func (t *timer) When() int64 {
	at := int64(forever)
	if t.flags&(dated|ctxDeadline) == dated {
		at = add(t.hist.startBy, 1) // it may start at that very moment
	}
	if !(*request)(t).is(inLane) {
		at = min(at, t.hist.until)
	}
	return at
}

func (t *timer) Index() *int32 { return &t.hist.idx }

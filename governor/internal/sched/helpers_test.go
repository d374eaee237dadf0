package sched

// lineup is a lane of which only what comes first counts, among requests of cost 1 that
// are numbered in the order of submission.
type lineup struct {
	Lane
	seqs []uint64
}

func newLineup(k Kind) *lineup {
	q := new(lineup)
	q.Begin(q, k)
	return q
}

// add puts a request into q, as the first if it is older than the others.
func (q *lineup) add(s *Scheduler, seq uint64) {
	i := 0
	for i < len(q.seqs) && q.seqs[i] < seq {
		i++
	}
	q.seqs = append(q.seqs, 0)
	copy(q.seqs[i+1:], q.seqs[i:])
	q.seqs[i] = seq
	q.tell()
	s.Add(&q.Lane, i == 0, true)
}

// start has the first of q started, and returns it.
func (q *lineup) start(s *Scheduler) uint64 {
	seq := q.seqs[0]
	q.seqs = q.seqs[1:]
	q.tell()
	s.Started(&q.Lane, 1)
	return seq
}

// remove takes the request at i out of q.
func (q *lineup) remove(s *Scheduler, i int) {
	q.seqs = append(q.seqs[:i:i], q.seqs[i+1:]...)
	q.tell()
	s.Remove(&q.Lane, i == 0)
}

func (q *lineup) tell() {
	if len(q.seqs) > 0 {
		q.SetHead(Head{Cost: 1, Seq: q.seqs[0]})
	}
}

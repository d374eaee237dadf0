package governor

import "runtime/debug"

// mostHelp is how many submissions somebody handles who is not the actor, at a time.
const mostHelp = 32

// help has the actor's work done about what the caller has just left for it: a
// request at the door, a slot. The caller does it itself when nobody else is at it, so
// that a request that can start does so without a switch to the actor and back, which
// costs more than all the rest of a call.
//
// There is still one owner of the scheduler at a time, whoever has the turn; what is
// decided, and in which order, is the same; and the actor keeps what is not about
// starting what can start: timers, signals, changes of limits, the end.
//
// No wake-up is lost. Who leaves something sets todo after that, and then tries for
// the turn. If he does not get it, somebody has it who looks at todo once more when he
// has given it back, which is later: he goes on, or wakes the actor, who does the same.
// And todo is cleared by who has the turn, before he looks at what was left.
//
// now is a time that has just been read.
//
// What a caller may have to do for others is bounded; the actor is woken for more.
func (c *core) help(now int64) {
	c.todo.Store(true)
	for i := range 2 {
		if c.gate.word.shutting() || c.gate.stirred.Load() || c.retime.Load() {
			break // it is not only about starting
		}
		if !c.turn.TryLock() {
			return
		}
		if i > 0 {
			now = c.now()
		}
		if c.lend(now); !c.todo.Load() {
			return
		}
	}
	c.wakeUp()
}

// lend does a turn on the caller's goroutine. The caller has the turn, and loses it.
func (c *core) lend(now int64) {
	defer func() {
		// A limiter, a breaker or a context may panic, which are the user's. That ends
		// the process, as it does in the actor: the caller's own handler might go on
		// without somebody else's request.
		if p := recover(); p != nil {
			go panic(&PanicError{p, debug.Stack()})
		}
	}()
	c.todo.Store(false)
	more := c.receive(now, mostHelp)
	wake := c.round(now) < c.alarm || more
	c.turn.Unlock()
	if wake {
		c.wakeUp()
	}
}

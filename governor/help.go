package governor

import (
	"fmt"
	"runtime/debug"
)

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
	returned := false
	defer c.mustReturn(&returned)
	c.todo.Store(false)
	more := c.receive(now, mostHelp)
	wake := c.round(now) < c.alarm || more
	returned = true
	c.turn.Unlock()
	if wake {
		c.wakeUp()
	}
}

// mustReturn is deferred in a turn and ends the process when that has not come to its
// end, because a limiter, a breaker or a context, which are the user's, panicked or ended
// the goroutine. The scheduler has stopped in the middle of a decision: nobody can have
// the turn any more, and all that wait would do so for ever. The panic is on another
// goroutine, and this one stays here, for it may be a caller's, whose own handler might go
// on without somebody else's request.
func (c *core) mustReturn(returned *bool) {
	if *returned {
		return
	}
	did := "called runtime.Goexit"
	if p := recover(); p != nil {
		did = fmt.Sprintf("panicked: %v", p)
	}
	go panic(fmt.Sprintf("governor %s: the scheduler, or a limiter, breaker or context that it asked, %s\n\n%s", c.name, did, debug.Stack()))
	select {}
}

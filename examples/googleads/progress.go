package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/flyball-go/flyball/examples/internal/adsreport"
)

// progress shows how far a mode is: on a terminal in one line that is drawn again
// and again, else in a line a second.
type progress struct {
	w     io.Writer
	mode  mode
	job   *job
	s     *session
	draw  bool
	begun time.Time
	last  string // the line that was written last
	quit  chan struct{}
	ended chan struct{}
}

// newProgress starts showing. stop must be called.
func newProgress(o *options, w io.Writer, m mode, j *job, s *session) *progress {
	p := &progress{w: w, mode: m, job: j, s: s, begun: time.Now(), quit: make(chan struct{}), ended: make(chan struct{})}
	p.draw = o.progress == "auto" && terminal(w)
	every := time.Second
	if p.draw {
		every = 100 * time.Millisecond
	}
	go func() {
		defer close(p.ended)
		if o.progress == "none" {
			return
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.show()
			case <-p.quit:
				if st := p.job.state(); st.total == 0 {
					p.clear()
					return
				}
				p.show()
				if p.draw {
					fmt.Fprintln(p.w)
				}
				return
			}
		}
	}()
	return p
}

// stop shows the end and waits until it is shown.
func (p *progress) stop() {
	close(p.quit)
	<-p.ended
}

const barWidth = 24

func (p *progress) show() {
	st, c := p.job.state(), p.s.meter.Counts()
	bar := barWidth * st.done / max(1, st.total)
	escalations := c.Escalations
	if p.s.server != nil {
		escalations = p.s.server.Seen().Escalations
	}
	line := fmt.Sprintf("%-10s [%s%s] %d/%d  %.1f/s | refused %d  escalated %d | paused %.1fs | %s rows", p.mode,
		strings.Repeat("#", bar), strings.Repeat("-", barWidth-bar), st.done, st.total,
		float64(st.done)/time.Since(p.begun).Seconds(), c.Refused, escalations, p.s.meter.Paused().Seconds(), adsreport.Comma(st.sum.Rows))
	if p.draw {
		fmt.Fprint(p.w, "\r\x1b[K\x1b[?7l", line, "\x1b[?7h") // cut off at the edge, not wrapped
		return
	}
	if line != p.last { // the end may come with a tick
		fmt.Fprintln(p.w, line)
		p.last = line
	}
}

// clear takes back what was drawn.
func (p *progress) clear() {
	if p.draw {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// terminal reports whether w is a terminal.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

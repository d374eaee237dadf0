package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	maxPeers  = 100
	maxAnswer = 8 << 20 // bytes of a peer's answer
	maxList   = 4000    // entries of a list in it
	stale     = 5 * time.Second
)

// errPeer is what can be said of a peer that gives no answer. It names no address:
// that may have a password in it.
type errPeer string

func (e errPeer) Error() string { return string(e) }

// peer is another process's dashboard.
type peer struct {
	number int
	base   *url.URL
	client *http.Client
	limit  time.Duration

	// mu guards what follows.
	mu      sync.Mutex
	asking  bool
	known   Overview  // the last answer
	at      time.Time // when it came, or failed to
	problem string    // "" after an answer
}

func newPeer(d *Dashboard, address string) (*peer, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil: // its text has the address
		return nil, errors.New("no URL")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("%s, want http://host:port/path/ or https", u.Redacted())
	}
	p := &peer{number: len(d.peers) + 1, base: u, client: d.cfg.PeerClient, limit: d.cfg.PeerTimeout}
	if p.client == nil {
		p.client = &http.Client{
			Transport:     &http.Transport{MaxIdleConnsPerHost: 2, MaxConnsPerHost: 8, IdleConnTimeout: time.Minute, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	p.known.Process = d.texts.clean(u.Host) // until it says better
	return p, nil
}

// ask asks p for its overview in the background, unless it is being asked. It is called
// by run alone, and so never once Close waits.
func (p *peer) ask(d *Dashboard) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking {
		return
	}
	p.asking = true
	d.work.Go(func() { p.refresh(d) })
}

// refresh asks p for its overview.
func (p *peer) refresh(d *Dashboard) {
	var o Overview
	err := p.get(d.ctx, d, url.Values{"own": {"1"}}, &o)
	if err == nil && o.Process == "" {
		err = errOther
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking, p.at, p.problem = false, d.now(), ""
	if err != nil {
		p.problem = err.Error()
		return
	}
	for i := range o.Governors {
		o.Governors[i].Peer = p.number
		o.Governors[i].Process = o.Process
	}
	p.known = o
}

// view is what is known of p: its governors, if that is fresh.
func (p *peer) view(now time.Time) (Peer, []Summary) {
	p.mu.Lock()
	defer p.mu.Unlock()
	told := Peer{Number: p.number, Process: p.known.Process, Problem: p.problem}
	age := now.Sub(p.at)
	if told.Problem == "" && age > stale {
		told.Problem = "not asked yet"
	}
	if told.Problem != "" {
		return told, nil
	}
	told.Up = true
	all := append([]Summary(nil), p.known.Governors...)
	for i := range all {
		age := ms(age)
		all[i].BreakerLeft = max(0, all[i].BreakerLeft-age)
		all[i].Cooldowns = append([]Cooldown(nil), all[i].Cooldowns...)
		for k := range all[i].Cooldowns {
			c := &all[i].Cooldowns[k]
			c.Left = max(0, c.Left-age)
		}
	}
	return told, all
}

// detail asks p about one of its governors. It returns nil when p has none.
func (p *peer) detail(ctx context.Context, d *Dashboard, id, since string) (*Detail, error) {
	var t Detail
	err := p.get(ctx, d, url.Values{"governor": {id}, "since": {since}}, &t)
	if errors.Is(err, errNoGovernor) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	t.Peer, t.Actions = p.number, false
	h := &t.History
	if t.Cursor == "" {
		return nil, errOther
	}
	for _, n := range []int{len(h.Rate), len(h.Done), len(h.Limited), len(h.Queued), len(h.InFlight), len(h.Quota), len(h.Cooling)} {
		if n != len(h.Time) {
			return nil, errOther
		}
	}
	return &t, nil
}

const (
	errNoGovernor errPeer = "it has no such governor"
	errOther      errPeer = "it answers something else than a dashboard of this version"
)

// get asks p for its state and reads the answer into v.
func (p *peer) get(ctx context.Context, d *Dashboard, query url.Values, v any) error {
	ctx, cancel := context.WithTimeout(ctx, p.limit)
	defer cancel()
	u := p.base.JoinPath("state.json")
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return errPeer("its address is no good")
	}
	res, err := p.client.Do(req)
	if err != nil {
		return p.why(ctx, err)
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound && query.Has("governor"):
		return errNoGovernor
	case res.StatusCode != http.StatusOK:
		return errPeer(fmt.Sprintf("it answers with status %d", res.StatusCode))
	case !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json"):
		return errPeer("it answers something else than a dashboard")
	}
	body := &io.LimitedReader{R: res.Body, N: maxAnswer}
	if err := json.NewDecoder(body).Decode(v); err != nil {
		switch {
		case body.N <= 0:
			return errPeer("its answer is too large")
		case ctx.Err() != nil:
			return p.why(ctx, err)
		}
		return errOther
	}
	d.texts.cleanAll(v, maxList)
	return nil
}

// why says in our own words what went wrong.
func (p *peer) why(ctx context.Context, err error) errPeer {
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return errPeer(fmt.Sprintf("no answer within %v", p.limit))
	case errors.As(err, &op) && op.Op == "dial":
		return "no connection"
	}
	return "the connection broke"
}

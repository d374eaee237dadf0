package clustertest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/flyball-go/flyball/store"
)

// process is a replica under way.
type process struct {
	shared *store.Syncer
	client *http.Client
	lives  []*life
}

// work does the jobs until in ends, and what in says meanwhile: "submit N", of each job;
// "limit QUOTA VERSION", of the first; "usage", which prints it; "rest", which prints "rests"
// when nothing is under way, and after that "usage" or "wake".
func (p *process) work(in io.Reader) error {
	over := make(chan struct{})
	var works sync.WaitGroup
	for _, l := range p.lives {
		works.Go(func() { l.work(over) })
	}
	fmt.Println("ready")
	var err error
	for lines := bufio.NewScanner(in); err == nil && lines.Scan(); {
		err = p.do(lines.Text())
	}
	close(over)
	works.Wait()
	for _, l := range p.lives {
		err = errors.Join(err, l.g.Close(), l.log.Err())
	}
	return err
}

func (p *process) do(line string) error {
	var quota int64
	var version uint64
	var n int
	if _, err := fmt.Sscanf(line, "submit %d", &n); err == nil {
		for _, l := range p.lives {
			l.now <- n
		}
		return nil
	}
	switch line {
	case "rest":
		for _, l := range p.lives {
			resting := make(chan struct{})
			l.rest <- resting
			<-resting
		}
		p.client.CloseIdleConnections()
		fmt.Println("rests")
		return nil
	case "wake":
		for _, l := range p.lives {
			l.wake <- struct{}{}
		}
		return nil
	case "usage":
		return json.NewEncoder(os.Stdout).Encode(measure())
	}
	if _, err := fmt.Sscanf(line, "limit %d %d", &quota, &version); err != nil {
		return err
	}
	first := p.lives[0]
	limit := *first.Limit
	limit.Quota = quota
	_, err := p.shared.Share(store.ShareConfig{Name: first.sharing(), Limits: []store.Limit{limit}, Version: version})
	return err
}

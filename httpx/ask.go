package httpx

import (
	"context"
	"net/http"

	"github.com/flyball-go/flyball/governor"
)

// wishes are what a context says of its requests: one value, since each look for one
// goes through all ancestors of a context that has none.
type wishes struct {
	ask     governor.Ask
	retry   *Retry
	retries bool // retry is what WithRetry was given
}

type wishesKey struct{}

// noWishes are those of a context that says nothing.
var noWishes wishes

func wishesOf(ctx context.Context) *wishes {
	if w, ok := ctx.Value(wishesKey{}).(*wishes); ok {
		return w
	}
	return &noWishes
}

// WithAsk returns a context whose requests have the given wishes, where Config.Ask is
// nil. A Tenant and a Bucket that are empty are those that the adapter finds.
func WithAsk(ctx context.Context, ask governor.Ask) context.Context {
	w := *wishesOf(ctx)
	w.ask = ask
	return context.WithValue(ctx, wishesKey{}, &w)
}

// AskFrom returns what WithAsk put into ctx or into an ancestor; the zero Ask when
// there is none.
func AskFrom(ctx context.Context) governor.Ask { return wishesOf(ctx).ask }

// place asks the adapter; one that panics has found nothing.
func (t *Transport) place(req *http.Request) (tenant, bucket string) {
	defer func() { _ = recover() }()
	return t.placer.Place(req)
}

// ask puts together what req wishes, whose context says w. A body that cannot be had
// again leaves no second attempt, whatever the first comes to.
func (t *Transport) ask(req *http.Request, w *wishes) (ask governor.Ask) {
	if t.cfg.Ask != nil {
		ask = t.cfg.Ask(req)
	} else {
		ask = w.ask
	}
	if t.placer != nil && (ask.Tenant == "" || ask.Bucket == "") {
		tenant, bucket := t.place(req)
		if ask.Tenant == "" {
			ask.Tenant = tenant
		}
		if ask.Bucket == "" {
			ask.Bucket = bucket
		}
	}
	ask.NoRetry = ask.NoRetry || !rewindable(req)
	return ask
}

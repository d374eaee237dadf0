package httpx

import (
	"context"
	"net/http"

	"github.com/flyball-go/flyball/governor"
)

type askKey struct{}

// WithAsk returns a context whose requests have the given wishes, where Config.Ask is
// nil. A Tenant and a Bucket that are empty are those that the adapter finds.
func WithAsk(ctx context.Context, ask governor.Ask) context.Context {
	return context.WithValue(ctx, askKey{}, ask)
}

// AskFrom returns what WithAsk put into ctx or into an ancestor; the zero Ask when
// there is none.
func AskFrom(ctx context.Context) governor.Ask {
	ask, _ := ctx.Value(askKey{}).(governor.Ask)
	return ask
}

// place asks the adapter; one that panics has found nothing.
func (t *Transport) place(req *http.Request) (tenant, bucket string) {
	defer func() { _ = recover() }()
	return t.placer.Place(req)
}

// ask puts together what req wishes. A body that cannot be had again leaves no second
// attempt, whatever the first comes to.
func (t *Transport) ask(req *http.Request) (ask governor.Ask) {
	if t.cfg.Ask != nil {
		ask = t.cfg.Ask(req)
	} else {
		ask = AskFrom(req.Context())
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

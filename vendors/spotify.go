package vendors

import (
	"time"

	"github.com/flyball-go/flyball/throttle"
)

// Spotify returns the adapter for Spotify's Web API.
//
// Limited is 429. The delay is Retry-After, which is missing at times. The window
// is 30 seconds: a Retry-After above 15 minutes is no budget but a block, of up to a
// day, that grows when it is ignored. The pause is the host's: use one governor for
// each client id. The number of calls is not published.
//
// Evidence, read 2026-11-21: zmb3/spotify:spotify.go.
func Spotify() Adapter { return Adapter{spotify} }

var spotify = &api{read: func(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	if s.Kind != throttle.KindOverload && s.Delay > 15*time.Minute {
		s.Kind = throttle.KindBan
	}
	return only(s, ok)
}}

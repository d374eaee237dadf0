package vendors

import "github.com/flyball-go/flyball/throttle"

// Twilio returns the adapter for Twilio's API.
//
// Limited are 429 and, whatever the status of the failure, the code 20429. It is
// about calls at once, and no time is given: clients begin with a second. The pause
// is the host's: use one governor for each account; subaccounts have limits of
// their own. A call that creates something may have done so when its answer is
// lost. The header Twilio-Concurrent-Requests is a load and no quota. There are no
// published numbers.
//
// Evidence, read 2026-11-21: twilio.com/docs/errors/20429, from a copy.
func Twilio() Adapter { return Adapter{twilio} }

var twilio = &api{read: func(r Response, _ []quota) []throttle.Signal {
	s, ok := common(r, nil)
	var reply struct {
		Code text `json:"code"`
	}
	if r.Status >= 400 && has(r.Body, "20429") && decode(r.Body, &reply) {
		ok = ok || reply.Code == "20429"
	}
	if s.Kind != throttle.KindOverload {
		s.Kind = throttle.KindConcurrency
	}
	return only(s, ok)
}}

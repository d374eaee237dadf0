package breaker

import (
	"slices"
	"time"
)

// State is what a Breaker does with calls.
type State uint8

const (
	Closed      State = iota // calls pass and are counted
	Open                     // calls are refused for a time; then the next one makes it HalfOpen
	HalfOpen                 // some trial calls pass and decide between Closed and Open
	Disabled                 // calls pass and nothing is counted, until somebody changes that
	ForcedOpen               // calls are refused until somebody changes that
	MetricsOnly              // calls pass and are counted, but never open it

	states // how many there are
)

var stateNames = [states]string{"closed", "open", "half-open", "disabled", "forced-open", "metrics-only"}

func (s State) valid() bool { return s < states }

// String returns the state's name in lower case.
func (s State) String() string {
	if s.valid() {
		return stateNames[s]
	}
	return "invalid"
}

// MarshalText makes a State a word in JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes what MarshalText gives. The error for another text matches
// ErrInvalid.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames[:], string(text))
	if i < 0 {
		return invalid("%q is no State", text)
	}
	*s = State(i)
	return nil
}

// Stats describes a Breaker at one moment.
//
// What is counted belongs to the state and begins anew with it, but an Open
// breaker keeps what made it open.
type Stats struct {
	State State `json:"state"`

	// Generation is a number that grows with each change of state, or from a
	// state to itself.
	Generation uint64 `json:"generation"`

	// Until is when an Open breaker will admit a trial call, or a HalfOpen one
	// opens again, or closes, by HalfOpenWait; zero where there is no such time.
	Until time.Time `json:"until,omitzero"`

	// Opens is how often it opened since it was last closed, by itself or by hand.
	Opens int `json:"opens"`

	// Cause is the text of the error of the call that opened it last, since it was
	// closed: by Do and Allow, and by ReportError. Empty where none is known. It may
	// be a server's words.
	Cause string `json:"cause,omitempty"`

	// FailureRate and SlowRate are fractions of Calls, from 0 to 1; -1 as long as
	// there are not calls enough to judge by, and always with Config.Consecutive.
	FailureRate float64 `json:"failure_rate"`
	SlowRate    float64 `json:"slow_rate"`

	// Calls, Failed and Slow are how many calls are in the window. With
	// Config.Consecutive a closed breaker counts nothing but the present row of
	// failures.
	Calls  int `json:"calls"`
	Failed int `json:"failed"`
	Slow   int `json:"slow"`

	// Rejected is how many calls Acquire, Allow and Do have refused.
	Rejected uint64 `json:"rejected"`

	// Trials is how many trial calls of a HalfOpen breaker are out and within
	// their lease.
	Trials int `json:"trials"`

	// Panics is how many panics of OnEvent were dropped, since the breaker was made.
	Panics uint64 `json:"panics"`
}

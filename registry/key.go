package registry

import (
	"strings"

	"github.com/flyball-go/flyball/internal/key"
)

// PermitType says what a key guards its resource with. It is written in lower case;
// ParseKey takes any.
type PermitType string

// The permit types: the first three are Confined's.
const (
	RateLimiter    PermitType = "ratelimiter"
	Bulkhead       PermitType = "bulkhead"
	CircuitBreaker PermitType = "circuitbreaker"
	Cooldown       PermitType = "cooldown"
	Governor       PermitType = "governor"
)

var permitTypes = []PermitType{RateLimiter, Bulkhead, CircuitBreaker, Cooldown, Governor}

// Key names what guards a resource: "tenant1-ratelimiter:servicea", or without a
// prefix "bulkhead:servicea". Both parts, the prefix and the resource, may have
// further hyphens and colons in them. The grammar is that of Confined, version 1.
type Key struct {
	Prefix   string // what the application wants, often a tenant; "" is none
	Type     PermitType
	Resource string
}

// ParseKey returns what s says: 1 to 36 bytes of [A-Za-z0-9:-], of the form
// <Prefix>-<PermitType>:<Resource> or <PermitType>:<Resource>, with nothing of it
// empty. Where it could be divided in several ways the last one counts. The case
// matters, but for the permit type. An error matches ErrInvalid: nothing is cut,
// escaped or corrected. A part that looks like a credential, "sk-" and a random text, is
// refused without being named, since keys are stored, logged and shown.
func ParseKey(s string) (Key, error) {
	if !key.Valid(s) {
		return Key{}, invalidf("key is %.64q, want 1 to 36 of [A-Za-z0-9:-]", s)
	}
	lower := strings.ToLower(s)
	at, k := -1, Key{}
	for _, t := range permitTypes {
		word := string(t) + ":"
		for i := strings.LastIndex(lower, word); i > at; i = strings.LastIndex(lower[:i+len(word)-1], word) {
			if i == 0 || s[i-1] == '-' {
				at, k = i, Key{Prefix: s[:max(0, i-1)], Type: t, Resource: s[i+len(word):]}
			}
		}
	}
	if key.Secret(k.Prefix) || key.Secret(k.Resource) {
		return Key{}, invalidf("key has what looks like a credential, which does not belong into a name")
	}
	if at < 0 || at == 1 || k.Resource == "" {
		return Key{}, invalidf("key is %q, want <prefix>-<permit type>:<resource> or <permit type>:<resource>", s)
	}
	return k, nil
}

// String returns the key as it is written, with its permit type in lower case: so two
// keys that name the same are the same text.
func (k Key) String() string {
	if k.Prefix == "" {
		return string(k.Type) + ":" + k.Resource
	}
	return k.Prefix + "-" + string(k.Type) + ":" + k.Resource
}

// Check returns an error that matches ErrInvalid unless ParseKey would make the same
// Key of what String returns.
func (k Key) Check() error {
	got, err := ParseKey(k.String())
	if err == nil && got != k {
		err = invalidf("key is %+v, which reads as %+v", k, got)
	}
	return err
}

// For returns the key of what the parts name, of any length and in any characters,
// such as a host, which has dots: the permit type, what is readable of the first
// part, and a hash of all. Different parts have different keys, with a prefix in
// their place as little as without.
func (t PermitType) For(parts ...string) string { return key.For(string(t)+":", parts...) }

// For returns the key of a governor, as store.KeyFor does: Governor.For.
func For(parts ...string) string { return Governor.For(parts...) }

// Package vendortest has stand-ins for rate-limited vendors: HTTP servers that
// enforce the documented limits of Google Ads, Meta, Microsoft Advertising, GitHub,
// OpenAI and Shopify and speak their errors, a [Server] for any other one that answers
// by a script, and the quota model that makes ignoring a vendor expensive. Use them to see what your client does to a vendor, not only
// what the vendor does to your client. The package needs nothing but the standard
// library and starts nothing by itself; servers are http.Handlers for httptest.
//
//	github, err := vendortest.NewGitHub(vendortest.GitHubConfig{})
//	server := httptest.NewServer(github)
//	... your client calls server.URL ...
//	if github.Totals().Secondary.Late > 0 { t.Error("it called during a pause") }
//
// They are no model of what the vendors are for: what a call finds is a field of
// each Config, and credentials are looked at only to count by them.
//
// # What is modelled
//
// An [Engine] is one limit: a bucket that time refills, or so many units per window.
// A call that does not fit is refused and begins a pause. There are two manners.
//
// By default a pause is enforced: calls made during it are refused too, and those
// that come later than a grace after its beginning, so that they cannot have been in
// flight already, restart it twice as long: 15 s, 30 s, 60 s ... 15 min. A pause that
// everybody obeyed costs nothing afterwards. One that was violated keeps its length
// for the next pause, until there has been a quiet time.
//
// A Lenient vendor says how long to wait, and judges a call that comes too early as
// any other. Such calls are counted all the same, as Late.
//
// The limits, the pauses and their wire format are what vendors publish; each
// server's comment, and docs/vendortest.md, tell what is not. That a violated pause
// doubles from 15 s to 15 min is what users report of the Google Ads API, and
// documented nowhere: take it as a model of an impatient vendor, not as a promise
// about any of them.
//
// # Totals
//
// [Totals] has what a limit saw: accepted, refused, used, and as witnesses of
// manners Late, the calls begun when their client could have known of the pause, and
// Escalations, those of them that made it longer. The grace must be longer than an
// answer and the next call take on their way, or polite clients look impolite, and
// not much longer, or impolite ones look polite. A client hears of a pause by being
// refused: where several clients share a limit, each has to be.
//
// # Time
//
// An Engine has no clock: Admit takes the moment of the call. The servers use
// the time package, so in a testing/synctest bubble they run on the bubble's
// clock. [Quota.Scale], and the Scale of a server, give the same quota at another
// speed; what a vendor's headers say is in the units that it uses, whole seconds,
// say, whatever the scale.
//
// # Memory
//
// It is bounded: a limit counts 100,000 keys apart unless told otherwise, and all
// further ones together; long keys are hashed; requests' bodies are read up to 1 MiB,
// those of a Google Ads mutate up to 16 MiB.
package vendortest

// Package dashboard is a live page about governors: who is cooling, why, until
// when, and what waits for it.
//
//	page, err := dashboard.New(dashboard.Config{Governors: dashboard.Of(g)})
//	defer page.Close()
//	http.Handle("/flyball/", http.StripPrefix("/flyball", page))
//
// The page has an overview of all governors and a view of each: queue by lane and
// tenant, calls in flight, rate beside quota over the last minutes, cooldowns with
// their source and a countdown, breaker, pool, errors by kind, latencies, recent
// events. It is live, by server-sent events, and needs nothing from elsewhere.
// state.json has the same as JSON, and is what another process's Config.Peers asks
// for.
//
// # Who may see it, and act
//
// The page reads. It says nothing of requests' contents; texts of vendors are
// shortened, and what looks like a credential is taken out. Selectors, tenants and
// buckets are shown as they print: one that holds a credential needs a String method
// that leaves it out. It may still tell
// strangers more than they should know, tenants' names for one: put a handler that
// knows its users around it, or listen on a loopback address.
//
// Pausing, resuming and clearing a cooldown is allowed only to requests that
// Config.Guard says yes to, by POST, and never to those that another site made a
// browser send (http.CrossOriginProtection). A Guard should know who asks, by a
// cookie or a password: that a request came to a loopback address says nothing, since
// any page in a browser on that machine can make it.
//
// # Concurrency and cost
//
// A Dashboard may be used by any number of goroutines at once. It owns one goroutine,
// which asks every governor for its Stats once a second, looked at
// or not, so that the charts have a past; with Config.OnDemand only while someone
// looks. It listens to the governors' decisions, not to what every call does: a call
// costs nothing more. Every reader is a goroutine of the http.Server. Memory is
// bounded: about 25 KB a governor for five minutes (Config.History), the last 256
// events of each, Config.MaxClients readers, nothing that waits for a slow one, which
// is dropped. Close ends all of it.
//
// # What it is not
//
// It is no monitoring system: it forgets what is older than some minutes, and all of it
// when the process ends. It shows processes beside each other and adds nothing up
// that they share.
package dashboard

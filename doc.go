// Package flyball is the root of a library that governs calls to rate-limited
// APIs: one actor per external host, which every call of the process passes, so
// that one "slow down" is obeyed by all of them at once. The root itself holds
// nothing but this page.
//
// # Which package
//
// Most programs need the first two and what those ask for.
//
//   - governor: the actor. Submit closures to it, get their results; it queues,
//     paces, pauses, probes, retries, and lends out connections.
//     governor/governortest helps to test code that uses one.
//   - vendors: how real APIs say "slow down", as adapters for a governor, and the
//     neutral Response they read. vendors/vendortest has stand-ins for such APIs,
//     with quotas, pauses and escalation; it is of use to any client.
//   - throttle: the words between the two: Signal, Scope, Kind, Unknown. For
//     writing an adapter of one's own.
//   - pool: connections by selector under one capacity; an idle one of another
//     selector makes room when all are taken. For a governor, or alone.
//   - limiter: rate limits that are told the time and never wait: a documented
//     quota, buckets, windows of all kinds, and one that learns how much a vendor
//     accepts. And limits for any number of goroutines, alone or in a chain.
//   - backoff: delay schedules as values, with jitter, caps and composition.
//   - policy: layers around a call, composed once, with or without a governor;
//     and the small ones: timeout, bulkhead, fallback, hedge, cache, collapse,
//     saga.
//   - retry: whether and when to try again, as a decision, a loop and a policy.
//   - breaker: a circuit breaker, for a governor, a chain, or alone; and what any
//     other must do to work with a governor.
//   - chaos: faults, delays and made-up results in a share of the calls.
//   - httpx: one line governs an http.Client; a server's limits as middleware.
//   - dashboard: a live page of governors, as an http.Handler.
//   - store: processes that share quotas and cooldowns, through an engine. There is
//     one in memory; store/storetest is what any other has to pass.
//   - registry: governors, breakers, limiters and the rest by name, configured from
//     JSON or a store and changed while they run; Confined's keys, metadata and packets.
//   - event: what governors and policies report, and its delivery to listeners
//     that nobody waits for.
//
// Modules of their own, for they need more than this one may:
//
//   - grpcx: interceptors that govern a gRPC connection's calls, and limit a
//     server's; and what turns errors and trailers into what adapters read.
//   - store/redisstore: an engine of store on Redis: one server, sentinels, a Cluster.
//   - store/mysqlstore: an engine of store on MariaDB or MySQL.
//   - telemetry: metrics, spans and log records of governors and policies, through
//     OpenTelemetry; with a Grafana dashboard and alerts for Prometheus.
//   - examples: programs to run and copy from; begin with examples/googleads.
//   - examples/clients: well-known clients of APIs, each governed by one transport.
//   - bench: what things cost, as ratios to doing without.
//
// # Where to look first
//
// The documentation of package governor tells the life of a request. The folder docs
// has a page for each mechanism: docs/governor.md is the first, and has the promises.
// Runnable programs are in examples.
package flyball

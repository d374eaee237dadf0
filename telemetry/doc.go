// Package telemetry shows governors, and policies that are used alone, through
// OpenTelemetry: metrics, a span for each request, and log records.
//
//	t, err := telemetry.New(telemetry.Config{})
//	stop, err := t.Watch(g)                                   // metrics of a governor
//	stop, err := t.WatchAll(group.Handles)                    // and of those that come and go
//	cfg.OnEvent = t.OnEvent                                   // of a policy used alone
//	v, err := telemetry.Do(ctx, t, g, sel, fn)                // a span around governor.Do
//
// What a governor counts is read when it is collected, from its Stats: a call costs
// nothing more, nothing is lost, and both show the same numbers. Prometheus gets it
// through the OpenTelemetry exporter. The names do not change; docs/telemetry.md has
// them all, with those of Resilience4j and Polly beside them.
//
// A Telemetry may be used by any number of goroutines at once. It has none of its
// own, and keeps a governor that it watches until stop is called.
//
// It exports nothing by itself: the providers of OpenTelemetry, which the program
// sets up and closes, do.
package telemetry

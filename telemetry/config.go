package telemetry

import (
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Config has no required fields.
type Config struct {
	// Meters make the instruments. nil: the global provider.
	Meters metric.MeterProvider

	// Tracers make the spans. nil: the global provider.
	Tracers trace.TracerProvider

	// Attributes are added to everything that is measured and to every span: the
	// region, the team. Keep them few, for each metric is stored with all of them.
	Attributes []attribute.KeyValue

	// Scopes bounds how many cooling scopes of a governor are measured one by one,
	// those that cool longest first; there may be one for every tenant. 0 means 20,
	// less than 0 none.
	Scopes int

	// Histograms has the governors that are watched tell of each attempt, for
	// histograms of how long they waited and ran. It costs each call some events,
	// and those that come faster than they are counted are lost; without it there
	// are quantiles, which cost nothing.
	Histograms bool
}

const (
	defaultScopes = 20
	maxScopes     = 10_000
)

func (c Config) withDefaults() (Config, error) {
	if c.Scopes > maxScopes {
		return c, fmt.Errorf("telemetry: Config.Scopes is %d, want at most %d", c.Scopes, maxScopes)
	}
	for i, a := range c.Attributes {
		if !a.Valid() {
			return c, fmt.Errorf("telemetry: Config.Attributes[%d] is %q without a value or a key", i, string(a.Key))
		}
	}
	if c.Scopes == 0 {
		c.Scopes = defaultScopes
	}
	return c, nil
}

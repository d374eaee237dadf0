package fakeads

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/flyball-go/flyball/vendors/vendortest"
)

// Flags are the command line of a server: what it has and how it behaves.
type Flags struct {
	Accounts int
	Seed     uint64
	Quota    vendortest.Quota
	Account  vendortest.Quota

	preset string
	config Config
	fs     *flag.FlagSet
}

// presets are named models. demo is real at a hundredth of the time.
var presets = map[string]string{
	"demo":     "qps=250,burst=20,cooldown=150ms,cooldown-max=9s,grace=15ms,latency=20ms",
	"real":     "qps=10,burst=40,cooldown=15s,cooldown-max=15m,grace=1s,latency=700ms",
	"explorer": "qps=10,burst=40,cooldown=15s,cooldown-max=15m,grace=1s,latency=700ms,daily-ops=2880",
}

// Register defines the flags on fs.
func (f *Flags) Register(fs *flag.FlagSet) {
	f.fs = fs
	fs.IntVar(&f.Accounts, "accounts", 2000, "accounts with reports; a few closed ones come on top")
	fs.Uint64Var(&f.Seed, "seed", 1, "what all accounts, campaigns and metrics follow from")
	fs.StringVar(&f.preset, "quota", "demo", "demo, real or explorer, or a list of the flags from -qps to -daily-ops such as qps=100,burst=5")
	fs.Float64Var(&f.Quota.Rate, "qps", 250, "calls per second that the project may make")
	fs.IntVar(&f.Quota.Burst, "burst", 20, "calls that it may make at once")
	fs.DurationVar(&f.Quota.Pause, "cooldown", 150*time.Millisecond, "first pause after a refused call")
	fs.DurationVar(&f.Quota.MaxPause, "cooldown-max", 9*time.Second, "longest pause")
	fs.Float64Var(&f.Quota.Factor, "factor", 2, "what a call during a pause multiplies the pause by")
	fs.DurationVar(&f.Quota.Grace, "grace", 15*time.Millisecond, "how late into a pause a call may still be taken for one that was on its way")
	fs.DurationVar(&f.Quota.Forgive, "forgive", 0, "quiet time that brings the pauses back to the first; 0: twice the longest")
	fs.Float64Var(&f.Account.Rate, "account-qps", 0, "calls per second for each account; 0: no limit of its own")
	fs.IntVar(&f.Account.Burst, "account-burst", 10, "calls at once for each account")
	fs.DurationVar(&f.config.Latency, "latency", 20*time.Millisecond, "mean time that an accepted call takes")
	fs.IntVar(&f.config.DailyOps, "daily-ops", 0, "calls in 24 hours; 0: no limit")
	fs.IntVar(&f.config.Batch, "batch", 10_000, "rows in a batch of a stream")
	fs.DurationVar(&f.config.TokenTTL, "token-ttl", time.Hour, "life of an access token")
	fs.Float64Var(&f.config.FaultRate, "fault-rate", 0, "share of calls and batches that break off, 0 to 1")
}

// Config returns the configuration, without its data, once the flags have been
// parsed. A flag that was given goes before the preset.
func (f *Flags) Config() (Config, error) {
	given := map[string]bool{}
	f.fs.Visit(func(fl *flag.Flag) { given[fl.Name] = true })
	list, ok := presets[f.preset]
	if !ok {
		list = f.preset
	}
	for pair := range strings.SplitSeq(list, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || !strings.Contains(" qps burst cooldown cooldown-max factor grace forgive account-qps account-burst latency daily-ops ", " "+name+" ") {
			return Config{}, fmt.Errorf("-quota %s: want demo, real, explorer or a list such as qps=100,burst=5", f.preset)
		}
		if given[name] {
			continue
		}
		if err := f.fs.Set(name, value); err != nil {
			return Config{}, fmt.Errorf("-quota: %s: %w", pair, err)
		}
	}
	switch {
	case f.Accounts < 1 || f.Accounts > 100_000:
		return Config{}, fmt.Errorf("-accounts %d: want 1 to 100000", f.Accounts)
	case !(f.Quota.Rate > 0):
		return Config{}, fmt.Errorf("-qps %v: want a number above 0", f.Quota.Rate)
	case f.Quota.Burst < 1:
		return Config{}, fmt.Errorf("-burst %d: want 1 or more", f.Quota.Burst)
	}
	if f.Quota.Grace == 0 {
		f.Quota.Grace = -1 // none; 0 is vendortest's default
	}
	c := f.config
	c.Quota, c.AccountQuota = f.Quota, f.Quota
	c.AccountQuota.Rate, c.AccountQuota.Burst = f.Account.Rate, f.Account.Burst
	_, err := newQuota(&c)
	return c, err
}

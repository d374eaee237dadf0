package redisstore

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/flyball-go/flyball/internal/servers"
	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// A primary that does not stop when its replicas are gone is told of, once: where another
// may be promoted, that is, as sentinels do, or as there are replicas for it.
func TestAPrimaryWithoutMinReplicasIsToldOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                    string
		replica, sentinels, set bool
		want                    int
	}{
		{name: "no replica", want: 0},
		{name: "a replica", replica: true, want: 1},
		{name: "a replica, and the setting", replica: true, set: true, want: 0},
		{name: "sentinels", sentinels: true, want: 1},
		{name: "sentinels, and the setting", sentinels: true, replica: true, set: true, want: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := servers.Redis(t)
			replicas := 0
			if tc.replica {
				servers.Replica(t, r)
				replicas++
			}
			if tc.set {
				r.Must("CONFIG", "SET", "min-replicas-to-write", "1")
			}
			var log logs
			cfg := Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			if tc.sentinels {
				cfg.Master = "main"
				for _, s := range servers.Sentinels(t, "main", r, replicas, time.Minute) {
					cfg.Addrs = append(cfg.Addrs, s.Addr)
				}
			} else {
				client := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
				defer client.Close()
				cfg.Client = client
			}
			s := open(t, cfg)
			for range 2 { // each asks by itself
				stop, err := s.Watch(t.Context(), func(store.Hint) {})
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
			}
			if !later(s) {
				t.Fatal("it hears of nothing")
			}
			time.Sleep(s.beat()) // asked once more
			if got := log.String(); strings.Count(got, "min-replicas-to-write") != tc.want || strings.Count(got, "\n") != tc.want {
				t.Errorf("logged %q, want %d lines", got, tc.want)
			}
		})
	}
}

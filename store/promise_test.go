package store

import (
	"testing"
	"time"
)

// A node may say that fewer permits than any number are of no use to it.
func TestStateTakesAnyLeast(t *testing.T) {
	cfg := StateConfig{Now: time.Unix(1800000000, 0), TTL: 10 * time.Second, Epoch: "e", MaxNodes: 10}
	for _, per := range []time.Duration{time.Minute, time.Hour, 744 * time.Hour} {
		for _, least := range []int64{3000, 1e7, 1e8, 1e9} {
			st := NewState(cfg, false)
			_, _, err := st.Exchange(cfg, "n1aaaaaaaaaaaaaaaaaaaa", &Item{Key: "k", Seq: 1, Version: 1, Want: least, Least: least,
				Limits: []Limit{{Kind: Bucket, Quota: 1, Per: per}}})
			if err != nil {
				t.Error(err)
				continue
			}
			if _, err := st.AppendBinary(nil); err != nil {
				t.Errorf("%d per %v: %v", least, per, err)
			}
		}
	}
}

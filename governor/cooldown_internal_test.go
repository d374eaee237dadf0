package governor

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A turn of the actor that began just before a pause was learned takes it for no longer
// than it is.
func TestAPauseOfMaxWaitIsNotTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := New(PlainConfig{Name: "test", MaxWait: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		r := &request{ctx: t.Context()}
		began := g.now()
		time.Sleep(time.Millisecond)
		until := g.now() + int64(time.Hour)
		if err := g.tooLong(r, cooldown{until: until}, began); err != nil {
			t.Error(err)
		}
		if err := g.tooLong(r, cooldown{until: until + 1}, began); !errors.Is(err, ErrCooling) {
			t.Errorf("beyond it: %v", err)
		}
	})
}

package governor

import "testing"

func TestOnlyARuleThatDropsWhatWaitsCostsAnything(t *testing.T) {
	for rule := Block; rule <= DropLower; rule++ {
		g, err := New(PlainConfig{Name: "test", Overflow: rule})
		if err != nil {
			t.Fatal(err)
		}
		if used := g.core.queue.Elders != nil; used != (rule >= DropOldest) {
			t.Errorf("rule %d: %v", rule, used)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

package store

import (
	"fmt"
	"time"
)

// MaxItems is how many items one Exchange may have.
const MaxItems = 1000

// CheckExchange returns an error that matches ErrInvalid when node or items make no
// sense: what every engine checks first.
func CheckExchange(node Node, items []Item) error {
	if err := node.Check(); err != nil {
		return err
	}
	if len(items) > MaxItems {
		return fmt.Errorf("%w: %d items, want up to %d", ErrInvalid, len(items), MaxItems)
	}
	for i := range items {
		if err := items[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (it *Item) check() error {
	if err := CheckKey(it.Key); err != nil {
		return err
	}
	for _, n := range []struct {
		field  string
		v, top int64
	}{
		{"Want", it.Want, 1e9}, {"Least", it.Least, it.Want}, {"Returned", it.Returned, 1e9}, {"Debt", it.Debt, 1e9},
		{"Slots", it.Slots, 1 << 20}, {"Held", it.Held, 1 << 20}, {"WantSlots", it.WantSlots, 1 << 20},
		{"LeastSlots", it.LeastSlots, it.Held + it.WantSlots}, {"Line", int64(it.Line), int64(LineTurn)},
		{"Cool", int64(len(it.Cool)), 16}, {"Known", int64(len(it.Known)), 16}, {"Clear", int64(len(it.Clear)), 16},
		{"Probe", int64(it.Probe), int64(ProbePassed)},
	} {
		if n.v < 0 || n.v > n.top {
			return fmt.Errorf("%w: Item.%s is %d, want 0 up to %d", ErrInvalid, n.field, n.v, n.top)
		}
	}
	if it.Seq == 0 {
		return fmt.Errorf("%w: Item.Seq is 0, want 1 or more", ErrInvalid)
	}
	for _, c := range it.Cool {
		if err := checkCooldown(c.Scope, c.For, 1); err != nil {
			return err
		}
	}
	for _, c := range it.Known {
		if err := checkCooldown(c.Scope, c.Left, 0); err != nil {
			return err
		}
	}
	for _, c := range it.Clear {
		if err := checkCooldown(c.Scope, 0, 0); err != nil {
			return err
		}
	}
	return CheckLimits(it.Limits)
}

func checkCooldown(scope string, d, least time.Duration) error {
	if len(scope) > maxScope {
		return fmt.Errorf("%w: a scope of %d bytes, want up to %d", ErrInvalid, len(scope), maxScope)
	}
	if d < least {
		return fmt.Errorf("%w: a cooldown of %v", ErrInvalid, d)
	}
	return nil
}

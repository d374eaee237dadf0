package isnil

import "testing"

func TestPointer(t *testing.T) {
	for _, v := range []any{(*int)(nil), error((*some)(nil))} {
		if !Pointer(v) {
			t.Errorf("%#v is none", v)
		}
	}
	for _, v := range []any{nil, 0, new(int), []int(nil), some{}, &some{}} {
		if Pointer(v) {
			t.Errorf("%#v is one", v)
		}
	}
}

type some struct{}

func (some) Error() string { return "" }

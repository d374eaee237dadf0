// Package crowd makes calls at the same time.
package crowd

import (
	"errors"
	"sync"
)

// Run calls call n times at once, and returns how many went well and what the others
// failed with.
func Run(n int, call func(i int) error) (good int, err error) {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = call(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err == nil {
			good++
		}
	}
	return good, errors.Join(errs...)
}

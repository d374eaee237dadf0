package governor_test

import "runtime"

// goexit ends the goroutine. It has a result so that a closure can return it.
func goexit() error {
	runtime.Goexit()
	return nil
}

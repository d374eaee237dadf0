// Package current is how a context tells which attempt runs with it, whoever
// makes the attempts.
package current

// Key is the key of the attempt in its context. The value has a method
// AttemptInfo that returns a retry.Info.
type Key struct{}

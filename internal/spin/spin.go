// Package spin is for those who lose a race for a word that many write.
package spin

// Aside lets others have their way for some 100 ns, after a compare-and-swap has
// failed. Who loses such a race and tries again at once takes the cache line from
// the winner, who is about to write again, and then each write waits until the line
// has come from another core. In that time the winner, left alone, writes several
// times; less than that does not help.
//
//go:noinline
func Aside() {
	for range turns {
	}
}

const turns = 400

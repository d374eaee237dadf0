module github.com/flyball-go/flyball/bench

go 1.26.0

require (
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/flyball-go/flyball v0.0.0
	github.com/jackc/puddle/v2 v2.2.3
	golang.org/x/time v0.16.0
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	golang.org/x/sync v0.24.0 // indirect
)

replace github.com/flyball-go/flyball => ../

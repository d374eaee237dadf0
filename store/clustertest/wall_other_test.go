//go:build !(linux && amd64)

package clustertest

import (
	"errors"
	"time"
)

// clock is Unix time in nanoseconds.
func clock() int64 { return time.Now().UnixNano() }

// goAstray is for Linux on amd64 alone: elsewhere a process's own clock is not to be had.
func goAstray(int) error { return errors.ErrUnsupported }

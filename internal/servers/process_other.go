//go:build !linux

package servers

import (
	"os"
	"syscall"
)

// dieWithParent does nothing: only Linux has it. A server outlives a test that is
// killed.
func dieWithParent() *syscall.SysProcAttr { return nil }

// goOn is nothing that can be sent: not every system has it.
var goOn os.Signal

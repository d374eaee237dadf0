package servers

import (
	"os"
	"syscall"
)

// dieWithParent has the kernel kill a server whose test is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// goOn wakes a process that was stopped.
var goOn os.Signal = syscall.SIGCONT

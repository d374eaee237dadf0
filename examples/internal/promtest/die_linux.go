package promtest

import (
	"os/exec"
	"syscall"
)

// dieWithUs has a process killed when this one dies and can stop it no more.
func dieWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

package main

import (
	"os/exec"
	"syscall"
)

// dieWithUs has the kernel kill a process when this one dies and can stop it no more.
func dieWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

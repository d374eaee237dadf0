//go:build !linux

package promtest

import "os/exec"

func dieWithUs(*exec.Cmd) {}

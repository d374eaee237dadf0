package clustertest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// clock is Unix time in nanoseconds as the kernel has it, whatever goAstray did.
func clock() int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 0, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// goAstray has the wall clock of this process be wrong by up to ten minutes either way,
// and by something else every 300 ms or so. It is that of the whole process, the runtime
// included: the code that the kernel maps into it for reading clocks (the vDSO) begins
// with a jump to code of ours from now on, which asks the kernel and adds to what it
// says. The monotonic clock stays as it is.
func goAstray(pattern int) error {
	entry, from, to, err := vdsoClock()
	if err != nil {
		return err
	}
	page, err := pageNear(entry)
	if err != nil {
		return err
	}
	astray := (*int64)(unsafe.Pointer(&page[2048])) // seconds
	copy(page, []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, //         syscall
		0x85, 0xff, //         test edi, edi; CLOCK_REALTIME is 0
		0x75, 16, //           jne to the ret
		0x48, 0xb9, 0, 0, 0, 0, 0, 0, 0, 0, // mov rcx, astray
		0x48, 0x8b, 0x09, //   mov rcx, [rcx]
		0x48, 0x01, 0x0e, //   add [rsi], rcx
		0xc3, //               ret
	})
	binary.LittleEndian.PutUint64(page[13:], uint64(uintptr(unsafe.Pointer(astray))))
	// The jump of five bytes is written at once, with the three that follow it: who
	// calls meanwhile finds all of it, or nothing.
	if _, _, errno := syscall.Syscall(syscall.SYS_MPROTECT, from, to-from, rwx); errno != 0 {
		return fmt.Errorf("the vDSO cannot be written: %w", errno)
	}
	code := (*uint64)(pointer(entry))
	jump := uint64(uint32(uintptr(unsafe.Pointer(&page[0])) - entry - 5))
	atomic.StoreUint64(code, atomic.LoadUint64(code)&^(1<<40-1)|jump<<8|0xe9)
	atomic.StoreInt64(astray, 1000)
	if off := time.Now().Unix() - clock()/1e9; off < 999 || off > 1001 {
		return fmt.Errorf("the wall clock is wrong by %ds, want 1000s", off)
	}
	go func() {
		for i := pattern; ; i++ {
			// From one end to the other and back again, as far as numbers without a
			// common divisor go.
			atomic.StoreInt64(astray, int64(i)*int64(331+pattern)%1201-600)
			time.Sleep(300 * time.Millisecond)
		}
	}()
	return nil
}

const (
	pageSize = 4096
	rwx      = syscall.PROT_READ | syscall.PROT_WRITE | syscall.PROT_EXEC
)

// pointer is address as a pointer: of what Go knows nothing of, and does not move.
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }

// vdsoClock is where the vDSO's clock_gettime is, and where it begins and ends itself:
// it can be made writable as a whole only.
func vdsoClock() (entry, from, to uintptr, err error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, 0, 0, err
	}
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			fmt.Sscanf(line, "%x-%x", &from, &to)
		}
	}
	if from == 0 {
		return 0, 0, 0, errors.New("the kernel gives no vDSO")
	}
	var symbols []elf.Symbol
	f, err := elf.NewFile(bytes.NewReader(unsafe.Slice((*byte)(pointer(from)), to-from)))
	if err == nil {
		symbols, err = f.DynamicSymbols()
	}
	if err != nil {
		return 0, 0, 0, fmt.Errorf("the vDSO: %w", err)
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Value%8 == 0 {
			return from + uintptr(s.Value), from, to, nil
		}
	}
	return 0, 0, 0, errors.New("the vDSO has no clock_gettime at a multiple of 8")
}

// pageNear maps a page so near to address that a jump of 32 bits reaches it.
func pageNear(address uintptr) ([]byte, error) {
	const flags = syscall.MAP_PRIVATE | syscall.MAP_ANON | 0x100000 // MAP_FIXED_NOREPLACE
	for distance := uintptr(1 << 18); distance < 1<<30; distance += 1 << 18 {
		for _, want := range []uintptr{address + distance, address - distance} {
			want &^= pageSize - 1
			at, _, errno := syscall.Syscall6(syscall.SYS_MMAP, want, pageSize, rwx, flags, ^uintptr(0), 0)
			if errno == 0 && at == want {
				return unsafe.Slice((*byte)(pointer(at)), pageSize), nil
			}
		}
	}
	return nil, errors.New("no room near the vDSO")
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// bubbles are what runs with virtual time, by name, for one seed each.
var bubbles = map[string]func(seed int) (outcome, error){}

// virtual runs a bubble's seeds from 1 on. A bubble needs a testing.T, which only the
// package testing makes, and that ends the process: so it is another one, as for rows
// in bytes. What was run once is not run again: several rows come from the same runs.
func virtual(name string, seeds int) ([]outcome, error) {
	key := name + "*" + strconv.Itoa(seeds)
	ran.Lock()
	defer ran.Unlock()
	if all := ran.of[key]; all != nil {
		return all, nil
	}
	out, err := respawn(key)
	if err != nil {
		return nil, err
	}
	var all []outcome
	if err := json.Unmarshal(out, &all); err != nil {
		return nil, err
	}
	ran.of[key] = all
	return all, nil
}

var ran = struct {
	sync.Mutex
	of map[string][]outcome
}{of: make(map[string][]outcome)}

// bubbled is the child that virtual starts. It ends the process.
func bubbled(key string, stdout, stderr io.Writer) {
	name, n, _ := strings.Cut(key, "*")
	seeds, _ := strconv.Atoi(n)
	runtime.GOMAXPROCS(1) // so that of what happens at once the same comes first each time
	testing.Main(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: name, F: func(t *testing.T) {
			all, err := runSeeds(t, name, seeds)
			if err == nil {
				err = json.NewEncoder(stdout).Encode(all)
			}
			if err != nil {
				fmt.Fprintln(stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}}}, nil, nil,
	)
}

// runSeeds runs a bubble's seeds from 1 on, one after the other.
func runSeeds(t *testing.T, name string, seeds int) ([]outcome, error) {
	f := bubbles[name]
	if f == nil {
		return nil, fmt.Errorf("there is no bubble %q", name)
	}
	all := make([]outcome, seeds)
	var failed error
	for i := range all {
		synctest.Test(t, func(*testing.T) {
			var err error
			if all[i], err = f(i + 1); err != nil {
				failed = errors.Join(failed, fmt.Errorf("seed %d: %w", i+1, err))
			}
		})
	}
	return all, failed
}

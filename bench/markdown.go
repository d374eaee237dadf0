package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// writeMarkdown writes a table in Markdown, under a line that says when and where it
// was measured.
func writeMarkdown(on machine) func(io.Writer, []result) error {
	return func(w io.Writer, results []result) error {
		text := on.String() + "\n\n" +
			"| row | ours | peer | ratio | allocations | target | ok | what, beside which peer |\n" +
			"|---|--:|--:|--:|--:|---|---|---|\n"
		for _, r := range results {
			text += "| " + strings.Join(r.cells(), " | ") + " |\n"
		}
		_, err := io.WriteString(w, text)
		return err
	}
}

// machine is what the numbers are of.
type machine struct {
	date      time.Time
	processor string
	count     int
	system    string
	version   string
	passes    int
}

func thisMachine(passes int) machine {
	return machine{
		date: time.Now(), processor: processor("/proc/cpuinfo"), count: runtime.GOMAXPROCS(0),
		system: runtime.GOOS + "/" + runtime.GOARCH, version: runtime.Version(), passes: passes,
	}
}

func (m machine) String() string {
	return fmt.Sprintf("%s, %d x %s, %s, %s, -passes %d", m.date.Format(time.DateOnly), m.count, m.processor, m.system, m.version, m.passes)
}

// processor is the model that file names, as Linux has it on most machines.
func processor(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return "processors"
	}
	for line := range strings.Lines(string(text)) {
		name, model, _ := strings.Cut(line, ":")
		if model = strings.TrimSpace(model); strings.TrimSpace(name) == "model name" && model != "" {
			return strings.ReplaceAll(model, "|", "/")
		}
	}
	return "processors"
}

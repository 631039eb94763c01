package main

import (
	"fmt"
	"time"

	"shellgame/internal/growth"
	"shellgame/internal/version"
	"shellgame/webgpu"
)

// growth measures how time and memory grow.
func (c *benchCmd) growth(a *app, dev webgpu.Device) error {
	o := growth.Defaults(dev)
	o.Limit = time.Duration(c.Seconds) * time.Second
	bar := a.bar("measuring", false)
	defer bar.Exit()
	o.Progress = func(what string) {
		bar.Describe(what)
		bar.Add(1)
	}
	series, err := growth.Run(a.ctx, dev, o)
	if err != nil {
		return err
	}
	bar.Clear()
	info := dev.Info()
	rep := growth.Report{Device: info.Kind, Adapter: info.Adapter, Driver: info.Driver, Commit: version.Commit(), Series: series}
	if c.JSON {
		return a.printJSON(rep)
	}
	fmt.Fprintf(a.out, "%s, %s, %s; commit %s\n", rep.Device, rep.Adapter, rep.Driver, orUnknown(rep.Commit))
	for _, s := range rep.Series {
		if len(s.Points) == 0 {
			continue
		}
		first, last := s.Points[0], s.Points[len(s.Points)-1]
		fmt.Fprintf(a.out, "%-28s time %s^%.2f, memory %s^%.2f from %d on; %d to %d: %.0f to %.0f µs, %.1f to %.1f MiB\n", s.Name, s.Over, s.Time.Exponent, s.Over, s.Memory.Exponent, s.Time.From,
			first.N, last.N, first.Time, last.Time, mib(first.Bytes), mib(last.Bytes))
	}
	fmt.Fprintln(a.out, "every point was compared first: with the same text read otherwise, the smallest with plain Go")
	return nil
}

func mib(bytes int) float64 { return float64(bytes) / (1 << 20) }

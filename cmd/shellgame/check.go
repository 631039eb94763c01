package main

import (
	"fmt"

	"shellgame/model/check"
)

type checkCmd struct {
	deviceFlag
	Full bool `help:"Every stored type of weight and longer prompts."`
	JSON bool `help:"Print one JSON object."`
}

func (c *checkCmd) Run(a *app) error {
	var rep *check.Report
	var err error
	if inBrowser(c.deviceFlag) {
		rep, err = checkInBrowser(a, c)
	} else {
		rep, err = c.here(a)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		if err := a.printJSON(rep); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "%s, %s\n", rep.Device, rep.Adapter)
		for _, k := range worstByKernel(rep.Kernels) {
			verdict := "ok"
			if !k.Pass {
				verdict = "WRONG"
			}
			fmt.Fprintf(a.out, "%-5s %-24s worst %.1e, bound %.0e (%s)\n", verdict, k.Name, float64(k.Worst), float64(k.Bound), k.Shape)
		}
	}
	if rep.Device == "cpu" && c.Device == "auto" {
		a.note("shellgame: no GPU was checked: this compared plain Go with itself")
	}
	if !rep.Pass {
		w := rep.Worst()
		a.note("shellgame: check failed: kernel %s (%s) is off by %.3g, want at most %.3g", w.Name, w.Shape, w.Worst, w.Bound)
		return errFailed
	}
	return nil
}

// here checks the device in this process. A device asked for by name is checked even where auto
// would not trust it.
func (c *checkCmd) here(a *app) (*check.Report, error) {
	dev, err := c.open(a)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	return check.Run(a.ctx, dev, c.Full, nil)
}

// worstByKernel keeps, of each kernel, the dispatch that was furthest off.
func worstByKernel(all []check.Kernel) []check.Kernel {
	var list []check.Kernel
	at := map[string]int{}
	for _, k := range all {
		i, seen := at[k.Name]
		switch {
		case !seen:
			at[k.Name] = len(list)
			list = append(list, k)
		case !(k.Worst <= list[i].Worst):
			list[i] = k
		}
	}
	return list
}

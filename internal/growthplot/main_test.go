package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"shellgame/internal/growth"
)

func TestFigure(t *testing.T) {
	series := func(name, over string) growth.Series {
		return growth.Series{Name: name, Over: over, Points: []growth.Point{{N: 512, Time: 10, Bytes: 1 << 20}, {N: 1024, Time: 21, Bytes: 2 << 20}}, Time: growth.Fit{Exponent: 1.07}, Memory: growth.Fit{Exponent: 1}}
	}
	reports := []growth.Report{
		{Device: "vulkan", Series: []growth.Series{series("delta rule: prompt", "T"), series("batch: prompts", "B"), series("model: prompt", "params")}},
		{Device: "browser", Series: []growth.Series{series("delta rule: prompt", "T")}},
	}
	svg, err := figure(reports)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"delta rule: prompt: 1.07 and 1.07", "batch: prompts: 1.07", "model: prompt: 1.07", "prefers-color-scheme: dark", "currentColor"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the figure lacks %q", want)
		}
	}
	for _, black := range []string{"#000", "NaN", "#-"} {
		if strings.Contains(string(svg), black) {
			t.Errorf("the figure has %q, which a dark page hides", black)
		}
	}
	reports[0].Series[0].Points[1].Time = 0
	if _, err := figure(reports); err == nil {
		t.Error("a time of 0 on a logarithmic axis passed")
	}
	if _, err := figure(nil); err == nil {
		t.Error("no report passed")
	}
}

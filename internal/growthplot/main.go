// Command growthplot draws what `shellgame bench --growth --json` printed on one device or several:
//
//	go run ./internal/growthplot -out docs/growth.svg native.json dawn.json
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"math"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"shellgame/internal/growth"
)

func main() {
	out := flag.String("out", "docs/growth.svg", "the figure")
	flag.Parse()
	if err := run(*out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "growthplot:", err)
		os.Exit(1)
	}
}

func run(out string, files []string) error {
	var reports []growth.Report
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var r growth.Report
		if err := json.Unmarshal(data, &r); err != nil {
			return fmt.Errorf("%s: %w: want what shellgame bench --growth --json prints", name, err)
		}
		reports = append(reports, r)
	}
	svg, err := figure(reports)
	if err != nil {
		return err
	}
	return os.WriteFile(out, svg, 0o644)
}

// panels are the axes of the figure, two in a row: time and memory over the length of a text, then
// time over the number of texts and over parameters.
var panels = []struct {
	title, over, x, y string
	memory            bool
}{
	{"Time", "T", "tokens", "ms", false},
	{"Memory beside the weights", "T", "tokens", "MiB", true},
	{"Time", "B", "texts at once", "ms", false},
	{"Time", "params", "parameters", "ms", false},
}

// hues are read on white and on black.
var hues = []color.Color{
	color.RGBA{0x1f, 0x83, 0xd6, 255},
	color.RGBA{0xd9, 0x5f, 0x0e, 255},
	color.RGBA{0x1b, 0x9e, 0x77, 255},
	color.RGBA{0xb0, 0x5c, 0xc9, 255},
	color.RGBA{0x9a, 0x8a, 0x10, 255},
	color.RGBA{0xd6, 0x4d, 0x7d, 255},
}

// of names the devices as they are drawn.
func of(reports []growth.Report) string {
	var names []string
	for i, r := range reports {
		names = append(names, []string{"solid", "dashed"}[min(i, 1)]+": "+r.Device)
	}
	return " (" + strings.Join(names, ", ") + ")"
}

func figure(reports []growth.Report) ([]byte, error) {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	plotter.DefaultFont = plot.DefaultFont
	const columns, side = 2, 12 * vg.Centimeter
	canvas := vgsvg.NewWith(vgsvg.UseWH(columns*side, side*vg.Length(len(panels))/columns*0.85))
	dc := draw.New(canvas)
	tiles := draw.Tiles{Rows: len(panels) / columns, Cols: columns, PadX: 12, PadY: 16, PadLeft: 6, PadRight: 10, PadTop: 6, PadBottom: 6}
	grid := make([][]*plot.Plot, tiles.Rows)
	drawn, hue := 0, map[string]color.Color{}
	for i, p := range panels {
		one := plot.New()
		one.BackgroundColor = nil
		one.Title.Text, one.Title.TextStyle.Font.Size = p.title+of(reports), 10
		one.X.Label.Text, one.Y.Label.Text = p.x, p.y
		one.X.Scale, one.Y.Scale = plot.LogScale{}, plot.LogScale{}
		one.X.Tick.Marker, one.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
		one.Legend.Top, one.Legend.Left = true, true
		one.Legend.TextStyle.Font.Size = 8
		lines, err := add(one, hue, reports, p.over, p.memory)
		if err != nil {
			return nil, err
		}
		drawn += lines
		grid[i/columns] = append(grid[i/columns], one)
	}
	if drawn == 0 {
		return nil, errors.New("no series: want files that shellgame bench --growth --json has printed")
	}
	for r, row := range plot.Align(grid, tiles, dc) {
		for c, at := range row {
			if grid[r][c].X.Min < grid[r][c].X.Max {
				grid[r][c].Draw(at)
			}
		}
	}
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return nil, err
	}
	return themed(b.Bytes())
}

// add draws the series over one size, a colour each and a dash a device, and returns how many there
// were.
func add(p *plot.Plot, hue map[string]color.Color, reports []growth.Report, over string, memory bool) (lines int, err error) {
	type entry struct {
		text  string
		thumb []plot.Thumbnailer
	}
	var names []string
	legend := map[string]*entry{}
	for device, r := range reports {
		for _, s := range r.Series {
			// The kernels alone take less time than the whole, and no memory of their own.
			if s.Over != over || memory && strings.Contains(s.Name, "kernels") || len(s.Points) < 2 {
				continue
			}
			xys := make(plotter.XYs, len(s.Points))
			for i, pt := range s.Points {
				xys[i] = plotter.XY{X: float64(pt.N), Y: pt.Time / 1e3}
				if memory {
					xys[i].Y = float64(pt.Bytes) / (1 << 20)
				}
				if !(xys[i].X > 0 && xys[i].Y > 0) {
					return lines, fmt.Errorf("%s, %s: got %v at %d, want what is above zero", r.Adapter, s.Name, xys[i].Y, pt.N)
				}
			}
			line, points, err := plotter.NewLinePoints(xys)
			if err != nil {
				return lines, err
			}
			if hue[s.Name] == nil {
				hue[s.Name] = hues[len(hue)%len(hues)]
			}
			line.Color, points.Color = hue[s.Name], hue[s.Name]
			line.Width, points.Radius, points.Shape = vg.Points(1.4), vg.Points(2.2), draw.CircleGlyph{}
			if device > 0 {
				line.Dashes = []vg.Length{vg.Points(4), vg.Points(2 * float64(device))}
				points.Shape = draw.RingGlyph{}
			}
			p.Add(line, points)
			lines++
			exponent := s.Time.Exponent
			if memory {
				exponent = s.Memory.Exponent
			}
			if legend[s.Name] == nil {
				legend[s.Name] = &entry{s.Name + ": ", []plot.Thumbnailer{line, points}}
				names = append(names, s.Name)
			} else {
				legend[s.Name].text += " and "
			}
			legend[s.Name].text += fmt.Sprintf("%.2f", exponent)
		}
	}
	for _, name := range names {
		p.Legend.Add(legend[name].text, legend[name].thumb...)
	}
	if lines > 0 { // room for the legend above the lines
		p.Y.Max *= math.Pow(p.Y.Max/p.Y.Min, 0.07*float64(len(names)))
	}
	return lines, nil
}

// themed gives black text and axes the colour that the reader's theme has for text.
func themed(svg []byte) ([]byte, error) {
	at := bytes.Index(svg, []byte("<svg"))
	end := at + bytes.IndexByte(svg[max(at, 0):], '>')
	if at < 0 || end <= at {
		return nil, errors.New("the drawing is no SVG")
	}
	end++
	var b bytes.Buffer
	b.Write(svg[:end])
	b.WriteString("\n<style>svg { color: #1f2328 } text { fill: currentColor; font-family: \"Liberation Sans\", Arial, sans-serif } @media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }</style>\n")
	rest := svg[end:]
	for _, black := range []string{"#000000", "#000"} {
		rest = bytes.ReplaceAll(rest, []byte(black), []byte("currentColor"))
	}
	b.Write(rest)
	return b.Bytes(), nil
}

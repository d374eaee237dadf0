package main

import (
	"bytes"
	"errors"
	"fmt"
	"image/color"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// plotFormat returns how the picture in a file is written, by the file's name.
func plotFormat(name string) (string, error) {
	base := filepath.Base(name)
	ext := filepath.Ext(base)
	format := strings.ToLower(strings.TrimPrefix(ext, "."))
	if format != "svg" && format != "png" || strings.Trim(strings.TrimSuffix(base, ext), ".") == "" {
		return "", fmt.Errorf("-plot %q: want a file whose name ends in .svg or .png", name)
	}
	return format, nil
}

// plotFile is where the picture goes. It is open from the beginning, so that a job is
// not done in vain, and keeps what it holds until there is a picture.
type plotFile struct {
	file   *os.File
	format string
	fresh  bool // nothing was there before
}

// openPlot opens the file of -plot, which must be a plain one.
func openPlot(name string) (*plotFile, error) {
	format, err := plotFormat(name)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(name)
	fresh := errors.Is(err, fs.ErrNotExist)
	switch {
	case err == nil && !info.Mode().IsRegular(): // a pipe would wait for a reader
		return nil, fmt.Errorf("-plot %q: not a plain file", name)
	case err == nil || fresh:
		var f *os.File
		if f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666); err == nil {
			return &plotFile{f, format, fresh}, nil
		}
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // without the name, which may have several lines
	}
	return nil, fmt.Errorf("-plot %q: %w", name, err)
}

// save draws the results into the file and closes it. Without any the file is as it
// was before.
func (p *plotFile) save(o *options, rs []*result) error {
	defer p.file.Close()
	if len(rs) == 0 {
		if p.fresh {
			return os.Remove(p.file.Name())
		}
		return nil
	}
	picture, err := draw(p.format, o, rs)
	if err != nil {
		return err
	}
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	if _, err := p.file.Write(picture); err != nil {
		return err
	}
	return p.file.Close()
}

// The size of the picture, 960 by 427 pixels on a page, and as an image half as many
// again each way, for dense screens.
const (
	plotWidth  = 720 * vg.Length(1)
	plotHeight = 320 * vg.Length(1)
	plotLegend = 130 * vg.Length(1) // of the width
	plotDPI    = 144
)

var (
	colours    = map[mode]color.NRGBA{naive: {196, 48, 32, 255}, governed: {11, 133, 119, 255}, configured: {59, 91, 190, 255}}
	quotaShade = color.NRGBA{138, 90, 0, 255}
	inkShade   = color.NRGBA{26, 32, 44, 255}
	gridShade  = color.NRGBA{226, 230, 234, 255}
)

// pale is a colour on white paper.
func pale(c color.NRGBA) color.NRGBA {
	c.R, c.G, c.B = 255-(255-c.R)/3, 255-(255-c.G)/3, 255-(255-c.B)/3
	return c
}

// draw draws the goodput of all results over time, and above it a strip with the
// pauses that each mode was told of.
func draw(format string, o *options, rs []*result) ([]byte, error) {
	p, legend, w := plot.New(), plot.NewLegend(), window(rs)
	p.Title.Text = fmt.Sprintf("Goodput, in windows of %v s", w.Seconds())
	p.X.Label.Text, p.Y.Label.Text = "seconds since the first call", "reports per second"
	style(p, &legend)
	grid := plotter.NewGrid()
	grid.Vertical.Width, grid.Horizontal.Color = 0, gridShade
	p.Add(grid)

	right, top := 0.0, 0.0
	if o.quotaKnown {
		top = o.model.Quota.Rate
	}
	lines := make([]*plotter.Line, len(rs))
	for i, r := range rs {
		lines[i] = &plotter.Line{XYs: r.curve.rates(w), LineStyle: vgdraw.LineStyle{Color: colours[mode(r.Mode)], Width: 2}}
		right = max(right, r.curve.elapsed.Seconds())
		for _, point := range lines[i].XYs {
			top = max(top, point.Y)
		}
	}
	if right == 0 {
		right = 1
	}
	if top == 0 {
		top = 1
	}
	if o.quotaKnown {
		quota := &plotter.Line{XYs: plotter.XYs{{X: 0, Y: o.model.Quota.Rate}, {X: right, Y: o.model.Quota.Rate}},
			LineStyle: vgdraw.LineStyle{Color: quotaShade, Width: 1.2, Dashes: []vg.Length{6, 4}}}
		p.Add(quota)
		legend.Add(fmt.Sprintf("quota, %v/s", o.model.Quota.Rate), quota)
	}
	p.X.Min, p.X.Max, p.Y.Min = 0, right, 0
	height := top * 0.04
	top *= 1.06
	for i, r := range rs {
		p.Add(lines[i])
		legend.Add(r.Mode, lines[i])
		if len(r.curve.pauses) > 0 {
			strip := &plotter.Polygon{Color: pale(colours[mode(r.Mode)])}
			for _, s := range r.curve.pauses {
				from, to := s.from.Seconds(), s.to.Seconds()
				strip.XYs = append(strip.XYs, plotter.XYs{{X: from, Y: top}, {X: to, Y: top}, {X: to, Y: top + height}, {X: from, Y: top + height}})
			}
			p.Add(strip)
			legend.Add("its pauses", strip)
			top += height * 1.3
		}
	}
	p.Y.Max = top
	return render(format, p, &legend)
}

// style sets the letters: of one family, dark, and large enough.
func style(p *plot.Plot, legend *plot.Legend) {
	for t, size := range map[*text.Style]font.Length{&p.Title.TextStyle: 13, &p.X.Label.TextStyle: 11, &p.Y.Label.TextStyle: 11,
		&p.X.Tick.Label: 10, &p.Y.Tick.Label: 10, &legend.TextStyle: 11} {
		t.Font.Variant, t.Font.Size, t.Color = "Sans", size, inkShade
	}
	p.Title.Padding, p.X.Padding, p.Y.Padding = 8, 0, 0
	p.BackgroundColor = color.White
	legend.Top, legend.Left, legend.ThumbnailWidth, legend.Padding = true, true, 22, 5
}

// render puts the legend beside the plot, where it hides nothing.
func render(format string, p *plot.Plot, legend *plot.Legend) ([]byte, error) {
	var canvas interface {
		vg.CanvasSizer
		io.WriterTo
	}
	if format == "svg" {
		canvas = vgsvg.New(plotWidth, plotHeight)
	} else {
		canvas = vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(plotWidth, plotHeight), vgimg.UseDPI(plotDPI))}
	}
	paper := vgdraw.New(canvas)
	paper.SetColor(color.White)
	paper.Fill(paper.Rectangle.Path())
	p.Draw(vgdraw.Crop(paper, 8, -plotLegend, 8, -8))
	legend.Draw(vgdraw.Crop(paper, plotWidth-plotLegend+14, 0, 0, -36))
	var picture bytes.Buffer
	_, err := canvas.WriteTo(&picture)
	return picture.Bytes(), err
}

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"shellgame/model"
	"shellgame/model/check"
	"shellgame/model/safetensors"
	"shellgame/model/tokenizer"
	"shellgame/model/tokenizer/bpe"
	"shellgame/task"
	"shellgame/webgpu"
)

// deviceFlag picks what computes.
type deviceFlag struct {
	Device string `help:"What computes: auto takes a GPU that passes the self-test, else the CPU. Of vulkan, metal, dx12, browser and cpu, browser is for check, verify and eval." enum:"auto,vulkan,metal,dx12,browser,cpu" default:"auto"`
}

// open opens the device in this process.
func (f deviceFlag) open(a *app) (webgpu.Device, error) {
	if inBrowser(f) {
		return nil, usage("--device: got browser, want another here: only verify, eval and check run in a browser")
	}
	o, err := check.Open(a.ctx, f.Device)
	if err != nil {
		return nil, err
	}
	if o.Reason != "" {
		a.note("shellgame: using the CPU: %s", o.Reason)
	}
	return o.Device, nil
}

// weightsFlag says how the matrices of a checkpoint are kept on the device.
type weightsFlag struct {
	Weights string `help:"How matrices are kept: as stored, or as f16, int8 (a scale a row) or int4 (one for 32 numbers)." enum:",f16,int8,int4" default:"" placeholder:"KIND"`
}

// modelFlag picks a checkpoint.
type modelFlag struct {
	Model     string `help:"Folder with config.json, the weights and, in it or above it, tokenizer.json." required:"" type:"path" placeholder:"DIR"`
	Tokenizer string `help:"Another tokenizer.json." type:"path" placeholder:"FILE"`
	weightsFlag
}

func (f modelFlag) name() string { return filepath.Base(f.Model) }

func (f modelFlag) load(a *app, dev webgpu.Device) (*model.Model, error) {
	bar := a.bar("loading "+f.name(), true)
	src, err := model.Look(f.name(), safetensors.Dir(f.Model))
	if err != nil {
		return nil, err
	}
	defer src.Close()
	m, err := src.Load(a.ctx, dev, model.LoadOptions{Weights: f.Weights, Progress: func(done, total int64) {
		bar.ChangeMax64(total)
		bar.Set64(done)
	}})
	bar.Exit()
	if err == nil {
		a.leftAside(m)
	}
	return m, err
}

// leftAside notes what of a checkpoint was not loaded.
func (a *app) leftAside(m *model.Model) {
	for _, s := range m.Skipped {
		a.note("%s: left aside %s", m.Name, s)
	}
}

// tokenizer reads tokenizer.json, of whichever kind.
func (f modelFlag) tokenizer() (tokenizer.Tokenizer, error) {
	if f.Tokenizer != "" {
		data, err := os.ReadFile(f.Tokenizer)
		if err != nil {
			return nil, fmt.Errorf("--tokenizer: %w", err)
		}
		return bpe.Open(data)
	}
	if info, err := os.Stat(f.Model); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("--model %s: no such folder, want one with config.json, the weights and tokenizer.json", f.Model)
	}
	if _, err := os.Stat(filepath.Join(f.Model, "config.json")); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--model %s: found no config.json, want it beside the weights and tokenizer.json", f.Model)
	}
	data, err := model.ReadTokenizer(safetensors.Dir(f.Model), safetensors.Dir(filepath.Dir(f.Model)))
	if err != nil {
		return nil, err
	}
	return bpe.Open(data)
}

// programWords sees that programs mean to the model what they mean here: its tokenizer must have
// every word of theirs at the same number.
func (f modelFlag) programWords() error {
	tok, err := f.tokenizer()
	if err != nil {
		return err
	}
	for id := range task.NumWords {
		if got, want := tok.Token(id), task.Word(int32(id)); got != want {
			return fmt.Errorf("tokenizer.json: token %d: got %q, want %q: programs take the zoo's %d words", id, got, want, task.NumWords)
		}
	}
	return nil
}

// bar shows progress on stderr, where that is a terminal.
func (a *app) bar(what string, bytes bool) *progressbar.ProgressBar {
	b := progressbar.NewOptions64(-1,
		progressbar.OptionSetDescription(what),
		progressbar.OptionSetWriter(a.err),
		progressbar.OptionShowBytes(bytes),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetVisibility(isTerminal(a.err)),
	)
	b.StartWithoutRender() // else the rate counts from the first piece on
	return b
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// begin opens the device and loads the model on it.
func begin(a *app, d deviceFlag, m modelFlag) (webgpu.Device, *model.Model, error) {
	dev, err := d.open(a)
	if err != nil {
		return nil, nil, err
	}
	mod, err := m.load(a, dev)
	if err != nil {
		dev.Close()
		return nil, nil, err
	}
	return dev, mod, nil
}

func describe(dev webgpu.Device) string {
	i := dev.Info()
	return fmt.Sprintf("%s, %s", i.Kind, i.Adapter)
}

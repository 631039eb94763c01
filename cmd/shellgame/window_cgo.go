//go:build windows || (window && cgo && !js)

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hajimehoshi/ebiten/v2"

	"shellgame/model/safetensors"
	"shellgame/stage"
	"shellgame/task"
	"shellgame/wasm/engine"
)

type windowCmd struct {
	deviceFlag
	modelFlag
	Task    string `help:"Task of a generated program." enum:"st,recall,sbr" default:"st"`
	N       int    `help:"Its size." default:"8"`
	Seed    uint64 `help:"Its seed." default:"1"`
	Dark    bool   `help:"Dark colours."`
	Program string `arg:"" optional:"" help:"A program to read instead."`
}

// Run shows the stage in a window. The arrow keys, Home and End step through the program, a click
// on a word goes there, Q or Escape closes.
func (c *windowCmd) Run(a *app) error {
	if inBrowser(c.deviceFlag) {
		return errors.New("window: a window has no browser: use --device auto, or make play")
	}
	src := c.Program
	if src == "" {
		if err := task.Task(c.Task).CheckLevel(c.N); err != nil {
			return err
		}
		src = task.Generate(task.Task(c.Task), c.N, c.Seed, 0).Python()
	}
	w := &window{queue: make(chan string, 64)}
	st := stage.New(stage.Options{
		OnSeek:   func(t int) { w.send(`{"type":"seek","t":` + strconv.Itoa(t) + `}`) },
		OnSelect: func(layer, head int) { w.send(fmt.Sprintf(`{"type":"view","layer":%d,"head":%d}`, layer, head)) },
		OnKey:    w.key,
	})
	w.close = st.Close
	if c.Dark {
		st.SetTheme(stage.Dark)
	}
	w.engine = engine.New(engine.Hooks{
		Scene: st.SetScene,
		View:  st.SetView,
		Files: func(context.Context, string, string) safetensors.Files { return safetensors.Dir(c.Model) },
		Event: func(ev engine.Event) {
			if ev.Error != "" {
				a.note("shellgame: %s", ev.Error)
			}
		},
	})
	// auto, or the GPU: which of vulkan, metal and dx12 this system has is for it to say.
	device := map[string]string{"auto": "auto", "cpu": "cpu"}[c.Device]
	if device == "" {
		device = "webgpu"
	}
	for _, m := range []map[string]any{
		{"type": "init", "device": device},
		{"type": "load", "model": filepath.Base(c.Model)},
		{"type": "run", "program": src},
	} {
		if err := w.ask(a.ctx, m); err != nil {
			return err
		}
	}
	go w.serve(a.ctx, a)
	stop := context.AfterFunc(a.ctx, st.Close)
	defer stop()
	if err := st.Run("Shell Game: " + filepath.Base(c.Model)); err != nil && !errors.Is(err, ebiten.Termination) {
		return fmt.Errorf("window: %w", err)
	}
	return a.ctx.Err()
}

// window passes keys and clicks to an engine, in order.
type window struct {
	engine *engine.Engine
	queue  chan string
	close  func()
}

// send queues a message, or drops it where the engine is far behind.
func (w *window) send(message string) {
	select {
	case w.queue <- message:
	default:
	}
}

func (w *window) key(k ebiten.Key) {
	switch k {
	case ebiten.KeyArrowRight, ebiten.KeySpace:
		w.send(`{"type":"step"}`)
	case ebiten.KeyArrowLeft:
		w.send(`{"type":"back"}`)
	case ebiten.KeyHome:
		w.send(`{"type":"reset"}`)
	case ebiten.KeyEnd:
		w.send(`{"type":"seek","t":1000000}`)
	case ebiten.KeyQ, ebiten.KeyEscape:
		w.close()
	case ebiten.KeyA:
		w.send(`{"type":"view","layer":-1}`)
	}
}

func (w *window) serve(ctx context.Context, a *app) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-w.queue:
			if err := w.answer(ctx, []byte(m)); err != nil {
				a.note("shellgame: %s", oneLine(err))
			}
		}
	}
}

func (w *window) ask(ctx context.Context, message map[string]any) error {
	b, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return w.answer(ctx, b)
}

func (w *window) answer(ctx context.Context, message []byte) error {
	var r engine.Reply
	if err := json.Unmarshal(w.engine.Handle(ctx, message), &r); err != nil {
		return err
	}
	if r.OK {
		return nil
	}
	if r.Line > 0 {
		return fmt.Errorf("program: line %d, column %d: %s", r.Line, r.Col, r.Error)
	}
	return errors.New(strings.TrimSpace(r.Error))
}

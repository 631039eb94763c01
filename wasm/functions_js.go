package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"syscall/js"

	"shellgame/model"
	"shellgame/model/check"
	"shellgame/model/goldentest"
	"shellgame/model/safetensors"
	"shellgame/model/verify"
	"shellgame/task"
	"shellgame/task/eval"
	"shellgame/webgpu"
)

func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return `{"sg":1,"event":"fatal","error":"a message could not be written"}`
	}
	return string(b)
}

// arguments of the functions below, as one object.
type arguments struct {
	Device  string   `json:"device"` // cpu, or the browser's WebGPU
	Dirs    []string `json:"dirs"`   // addresses of folders
	Golden  []string `json:"golden"` // addresses of golden files, one a folder
	Model   string   `json:"model"`  // address of a folder
	Task    string   `json:"task"`
	Levels  []int    `json:"levels"`
	Samples int      `json:"samples"`
	Seed    uint64   `json:"seed"`
	Full    bool     `json:"full"`
}

// exportFunctions puts verify, eval and check on globalThis.shellgame. Each takes an object and
// returns a promise of what the command of the same name prints with --json, as text.
func exportFunctions() {
	api := js.Global().Get("Object").New()
	for name, f := range map[string]func(context.Context, webgpu.Device, arguments) (any, error){
		"verify": verifyHere,
		"eval":   evalHere,
		"check": func(ctx context.Context, dev webgpu.Device, a arguments) (any, error) {
			return check.Run(ctx, dev, a.Full, nil)
		},
	} {
		api.Set(name, js.FuncOf(func(_ js.Value, args []js.Value) any {
			text := "{}"
			if len(args) > 0 {
				text = js.Global().Get("JSON").Call("stringify", args[0]).String()
			}
			return promise(func() (string, error) { return call(f, text) })
		}))
	}
	js.Global().Set("shellgame", api)
}

func call(f func(context.Context, webgpu.Device, arguments) (any, error), text string) (string, error) {
	var a arguments
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return "", fmt.Errorf("shellgame: the arguments: %w", err)
	}
	kind := "gpu"
	if a.Device == "cpu" {
		kind = "cpu"
	}
	ctx := context.Background()
	opened, err := check.Open(ctx, kind)
	if err != nil {
		return "", err
	}
	defer opened.Device.Close()
	v, err := f(ctx, opened.Device, a)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(v)
	return string(b), err
}

// promise runs f beside the page and settles with its outcome.
func promise(f func() (string, error)) js.Value {
	var executor js.Func
	executor = js.FuncOf(func(_ js.Value, settle []js.Value) any {
		resolve, reject := settle[0], settle[1]
		go func() {
			defer executor.Release()
			text, err := f()
			if err != nil {
				reject.Invoke(js.Global().Get("Error").New(strings.Join(strings.Fields(err.Error()), " ")))
				return
			}
			resolve.Invoke(text)
		}()
		return nil
	})
	return js.Global().Get("Promise").New(executor)
}

func verifyHere(ctx context.Context, dev webgpu.Device, a arguments) (any, error) {
	if len(a.Golden) != len(a.Dirs) {
		return nil, fmt.Errorf("verify: %d folders and %d golden files, want one each", len(a.Dirs), len(a.Golden))
	}
	rep := verify.New(dev)
	for i, dir := range a.Dirs {
		rep.Add(verifyOne(ctx, dev, dir, a.Golden[i]))
	}
	return rep, nil
}

func verifyOne(ctx context.Context, dev webgpu.Device, dir, golden string) verify.Case {
	failed := func(err error) verify.Case {
		return verify.Case{Dir: dir, Error: strings.Join(strings.Fields(err.Error()), " ")}
	}
	folder, file := path.Split(golden)
	data, err := safetensors.ReadFile(&safetensors.HTTP{Context: ctx, Base: folder}, file, 256<<20)
	if err != nil {
		return failed(err)
	}
	g, err := goldentest.Read(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return failed(err)
	}
	m, err := model.Open(ctx, dev, path.Base(strings.TrimSuffix(dir, "/")), checkpointFiles(ctx, "", dir), nil)
	if err != nil {
		return failed(err)
	}
	defer m.Release()
	return verify.Model(ctx, dir, m, g)
}

func evalHere(ctx context.Context, dev webgpu.Device, a arguments) (any, error) {
	t, err := task.ParseTask(a.Task)
	if err != nil {
		return nil, err
	}
	m, err := model.Open(ctx, dev, path.Base(strings.TrimSuffix(a.Model, "/")), checkpointFiles(ctx, "", a.Model), nil)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	return eval.Run(ctx, m, eval.Options{Task: t, Levels: a.Levels, Samples: a.Samples, Seed: a.Seed, Tokens: 1024})
}

// Command wasm is the page's engine and stage in one module, in a document of its own: stage.html,
// inside a frame. The page talks to it by postMessage; web/README.md describes the messages.
package main

import (
	"context"
	"strings"
	"syscall/js"

	"shellgame/model/safetensors"
	"shellgame/stage"
	"shellgame/wasm/engine"
)

func main() {
	inbox := make(chan []byte, 64)
	page := newPort(inbox)
	var st *stage.Stage
	hooks := engine.Hooks{
		Event: func(ev engine.Event) { page.post(marshal(ev)) },
		Files: func(ctx context.Context, base, model string) safetensors.Files {
			if files := page.files[model]; files != nil {
				return files
			}
			return checkpointFiles(ctx, base, model)
		},
	}
	withStage := !js.Global().Get("shellgameNoStage").Truthy()
	if withStage {
		st = stage.New(stage.Options{
			OnHover: func(text string) { page.post(marshal(engine.Event{SG: 1, Event: "hover", Text: text})) },
			OnSelect: func(layer, head int) {
				page.post(marshal(engine.Event{SG: 1, Event: "select", Layer: &layer, Head: &head}))
			},
			OnSize: func(least, most float64) {
				page.post(marshal(engine.Event{SG: 1, Event: "size", Least: least, Most: most}))
			},
			OnSeek: func(t int) { page.post(marshal(engine.Event{SG: 1, Event: "seek", T: &t})) },
		})
		hooks.Scene, hooks.View, hooks.Theme, hooks.Show = st.SetScene, st.SetView, st.SetTheme, st.SetVisible
	}
	e := engine.New(hooks)
	exportFunctions()
	// Callbacks must not block, so they only queue; this goroutine answers in order.
	go e.Serve(context.Background(), inbox, func(reply []byte) { page.post(string(reply)) })
	page.post(marshal(engine.Event{SG: 1, Event: "ready"}))
	if withStage {
		if err := st.Run("Shell Game"); err != nil {
			page.post(marshal(engine.Event{SG: 1, Event: "stage-lost", Error: strings.Join(strings.Fields(err.Error()), " ")}))
		}
	}
	select {}
}

// port is the other end of the messages: the page around the frame, or nothing.
type port struct {
	parent, json js.Value
	origin       string
	files        map[string]safetensors.Blobs // that came with a message, by the model they are
}

func newPort(inbox chan<- []byte) *port {
	g := js.Global()
	p := &port{parent: g.Get("parent"), json: g.Get("JSON"), files: map[string]safetensors.Blobs{}}
	if o := g.Get("origin"); o.Type() == js.TypeString {
		p.origin = o.String()
	}
	if g.Get("addEventListener").Type() != js.TypeFunction || p.parent.Equal(g) {
		p.parent = js.Null()
		return p
	}
	g.Call("addEventListener", "message", js.FuncOf(func(_ js.Value, args []js.Value) any {
		ev := args[0]
		if !ev.Get("source").Equal(p.parent) || ev.Get("origin").String() != p.origin {
			return nil
		}
		data := ev.Get("data")
		if data.Type() != js.TypeObject || data.Get("sg").Type() != js.TypeNumber {
			return nil
		}
		p.take(data)
		select {
		case inbox <- []byte(p.json.Call("stringify", data).String()):
		default: // a page that floods its engine loses messages, not the browser
		}
		return nil
	}))
	return p
}

// take keeps the files of a message, {model, files: [{name, file}]}, which JSON cannot carry.
func (p *port) take(data js.Value) {
	list := data.Get("files")
	if list.Type() != js.TypeObject || data.Get("model").Type() != js.TypeString {
		return
	}
	files := safetensors.Blobs{}
	for i := range list.Length() {
		if f := list.Index(i); f.Get("name").Type() == js.TypeString && f.Get("file").InstanceOf(js.Global().Get("Blob")) {
			files[f.Get("name").String()] = f.Get("file")
		}
	}
	p.files[data.Get("model").String()] = files
}

// post sends a JSON object to the page.
func (p *port) post(message string) {
	if p.parent.IsNull() {
		return
	}
	target := p.origin
	if target == "null" { // of a sandbox: no message can name it
		target = "*"
	}
	p.parent.Call("postMessage", p.json.Call("parse", message), target)
}

// checkpointFiles finds a checkpoint: a name is a folder of the zoo, anything with a slash the
// address of a folder.
func checkpointFiles(ctx context.Context, base, model string) safetensors.Files {
	url := model
	if !strings.Contains(model, "/") {
		url = strings.TrimSuffix(base, "/") + "/" + model
	}
	return &safetensors.HTTP{Context: ctx, Base: strings.TrimSuffix(url, "/") + "/", Keep: url == model}
}

// Command tokens is the page's tokenizers in a module of their own, in a worker: byte-level BPE and
// its tables are loaded only with a checkpoint that needs them. web/js/tokens-worker.js calls what
// it puts on globalThis.shellgameTokens; every function returns an object, {error} with one line
// where it failed.
package main

import (
	"fmt"
	"strings"
	"syscall/js"

	"shellgame/model/tokenizer"
	"shellgame/model/tokenizer/bpe"
)

func main() {
	t := &tokens{}
	api := js.Global().Get("Object").New()
	for name, f := range map[string]func(args []js.Value) (map[string]any, error){
		"open": t.open, "encode": t.encode, "decode": t.decode, "pieces": t.pieces, "id": t.id, "begin": t.begin, "next": t.next, "end": t.end,
	} {
		api.Set(name, js.FuncOf(func(_ js.Value, args []js.Value) (result any) {
			defer func() {
				if p := recover(); p != nil { // the worker goes on with the tokenizer it has
					result = failed(fmt.Errorf("tokenizer: %v", p))
				}
			}()
			out, err := f(args)
			if err != nil {
				return failed(err)
			}
			return out
		}))
	}
	js.Global().Set("shellgameTokens", api)
	js.Global().Call("shellgameTokensReady")
	select {}
}

func failed(err error) map[string]any {
	return map[string]any{"error": strings.Join(strings.Fields(err.Error()), " ")}
}

// tokens is one tokenizer and the texts that it is decoding.
type tokens struct {
	t       tokenizer.Tokenizer
	streams map[int]*tokenizer.Stream
	last    int
}

// open takes the bytes of a tokenizer.json.
func (t *tokens) open(args []js.Value) (map[string]any, error) {
	data := make([]byte, args[0].Get("byteLength").Int())
	js.CopyBytesToGo(data, args[0])
	tok, err := bpe.Open(data)
	if err != nil {
		return nil, err
	}
	t.t, t.streams = tok, map[int]*tokenizer.Stream{}
	return map[string]any{"n": tok.N()}, nil
}

// encode turns a text into tokens.
func (t *tokens) encode(args []js.Value) (map[string]any, error) {
	ids, err := t.t.Encode(args[0].String())
	if err != nil {
		return nil, err
	}
	return map[string]any{"ids": array(ids)}, nil
}

// decode turns tokens into text, special ones included.
func (t *tokens) decode(args []js.Value) (map[string]any, error) {
	text, err := t.t.Decode(numbers(args[0]))
	if err != nil {
		return nil, err
	}
	return map[string]any{"text": text}, nil
}

// pieces returns how the file writes each token, which shows parts of characters too; "" is a
// token outside the vocabulary.
func (t *tokens) pieces(args []js.Value) (map[string]any, error) {
	ids := numbers(args[0])
	out := make([]any, len(ids))
	for i, id := range ids {
		out[i] = t.t.Token(id)
	}
	return map[string]any{"pieces": out}, nil
}

// id returns the token that the file writes so, or -1.
func (t *tokens) id(args []js.Value) (map[string]any, error) {
	id, ok := t.t.ID(args[0].String())
	if !ok {
		id = -1
	}
	return map[string]any{"id": id}, nil
}

// begin begins a text that is decoded as its tokens come.
func (t *tokens) begin([]js.Value) (map[string]any, error) {
	t.last++
	t.streams[t.last] = tokenizer.NewStream(t.t)
	return map[string]any{"stream": t.last}, nil
}

// next adds tokens to a text and returns the characters that are whole now. Tokens that the
// vocabulary lacks add nothing and are counted.
func (t *tokens) next(args []js.Value) (map[string]any, error) {
	s := t.streams[args[0].Int()]
	if s == nil {
		return nil, fmt.Errorf("tokenizer: got text %d, want one that was begun", args[0].Int())
	}
	var text strings.Builder
	unknown := 0
	for _, id := range numbers(args[1]) {
		part, err := s.Next(id)
		if err != nil {
			unknown++
		}
		text.WriteString(part)
	}
	return map[string]any{"text": text.String(), "unknown": unknown}, nil
}

// end ends a text and returns what was held back.
func (t *tokens) end(args []js.Value) (map[string]any, error) {
	n := args[0].Int()
	s := t.streams[n]
	if s == nil {
		return nil, fmt.Errorf("tokenizer: got text %d, want one that was begun", n)
	}
	delete(t.streams, n)
	return map[string]any{"text": s.End()}, nil
}

func array(ids []int) js.Value {
	out := js.Global().Get("Int32Array").New(len(ids))
	for i, id := range ids {
		out.SetIndex(i, id)
	}
	return out
}

func numbers(v js.Value) []int {
	out := make([]int, v.Length())
	for i := range out {
		out[i] = v.Index(i).Int()
	}
	return out
}

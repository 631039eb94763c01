//go:build !js

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shellgame/model/construct"
	"shellgame/model/safetensors"
)

// broken makes, in a folder that holds a good checkpoint, what is wrong with it.
type broken func(t *testing.T, dir string)

// weights replaces model.safetensors.
func weights(data []byte) broken {
	return func(t *testing.T, dir string) { write(t, filepath.Join(dir, "model.safetensors"), data) }
}

// header is a safetensors file with that header and so many bytes of data.
func header(text string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(b, text...), make([]byte, data)...)
}

// setting replaces a piece of config.json, which must be there.
func setting(old, new string) broken {
	return func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "config.json"), old, new) }
}

func edit(t *testing.T, path, old, new string) {
	t.Helper()
	data := read(t, path)
	if !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s has no %s", path, old)
	}
	write(t, path, bytes.Replace(data, []byte(old), []byte(new), 1))
}

func remove(name string) broken {
	return func(t *testing.T, dir string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// value sets one element of a tensor of model.safetensors to the bits of a half.
func value(tensor string, element int, bits uint16) broken {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, "model.safetensors")
		data := read(t, path)
		f, err := safetensors.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		x, ok := f.Tensor(tensor)
		if !ok || x.DType != safetensors.F16 {
			t.Fatalf("no half tensor %s in %v", tensor, f.Names())
		}
		binary.LittleEndian.PutUint16(data[x.Offset+2*int64(element):], bits)
		write(t, path, data)
	}
}

// tensors reads model.safetensors.
func tensors(t *testing.T, dir string) []safetensors.Entry {
	data := read(t, filepath.Join(dir, "model.safetensors"))
	f, err := safetensors.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var list []safetensors.Entry
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		list = append(list, safetensors.Entry{Name: name, DType: x.DType, Shape: x.Shape, Data: data[x.Offset:][:x.Bytes]})
	}
	return list
}

// without takes a tensor out of model.safetensors.
func without(tensor string) broken {
	return func(t *testing.T, dir string) {
		var b bytes.Buffer
		all := tensors(t, dir)
		kept := slices.DeleteFunc(slices.Clone(all), func(e safetensors.Entry) bool { return e.Name == tensor })
		if err := safetensors.Write(&b, kept, nil); err != nil || len(kept) != len(all)-1 {
			t.Fatalf("%d of %d tensors left: %v", len(kept), len(all), err)
		}
		weights(b.Bytes())(t, dir)
	}
}

// shards moves model.safetensors to one shard of an index that says what says says.
func shards(index func(names []string) string) broken {
	return func(t *testing.T, dir string) {
		data := read(t, filepath.Join(dir, "model.safetensors"))
		f, err := safetensors.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		remove("model.safetensors")(t, dir)
		write(t, filepath.Join(dir, "model-00001-of-00002.safetensors"), data)
		write(t, filepath.Join(dir, "model.safetensors.index.json"), []byte(index(f.Names())))
	}
}

// weightMap puts all tensors in the first shard, and extra ones where it says.
func weightMap(names []string, extra string) string {
	var list []string
	for _, n := range names {
		list = append(list, fmt.Sprintf("%q:%q", n, "model-00001-of-00002.safetensors"))
	}
	return `{"metadata":{},"weight_map":{` + strings.Join(list, ",") + extra + `}}`
}

const (
	oneTensor = `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}`
	prompt    = "a,b,c,d,e=range(5) a,c=c,a assert a=="
)

// badCheckpoints are the ways in which a checkpoint can be broken, with what the person who opens
// it reads: what was found, what was expected, what to do. DIR stands for the folder.
var badCheckpoints = []struct {
	name   string
	damage broken
	want   string
}{
	{"text instead of weights", weights([]byte("hello, these are my weights")), `model mine: safetensors: model.safetensors: got text that begins with "hello, t", want a safetensors file`},
	{"empty file", weights(nil), `model mine: safetensors: model.safetensors: got 0 bytes, want at least 8 (the header's length)`},
	{"Git-LFS pointer", weights([]byte("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 3021\n")), `model mine: safetensors: model.safetensors: got a Git-LFS pointer (git lfs pull fetches the file itself), want a safetensors file`},
	{"HTML page", weights([]byte("<!DOCTYPE html>\n<html><body>404</body></html>")), `model mine: safetensors: model.safetensors: got an HTML page, want a safetensors file`},
	{"PyTorch file", weights([]byte("PK\x03\x04archive/data.pkl")), `model mine: safetensors: model.safetensors: got a zip archive (as PyTorch writes), want a safetensors file`},
	{"truncated header", weights(header(oneTensor+"}", 8)[:30]), `model mine: safetensors: model.safetensors: header length: got 54 bytes, but only 22 follow: the file is cut short or no safetensors file`},
	{"truncated data", weights(header(oneTensor+"}", 3)), `model mine: safetensors: model.safetensors: tensor "a": data_offsets: got [0 8], beyond the 3 bytes that follow the header: the file is cut short or its header is wrong`},
	{"download that broke off", func(t *testing.T, dir string) {
		data := read(t, filepath.Join(dir, "model.safetensors"))
		weights(data[:len(data)/2])(t, dir)
	}, `model mine: safetensors: model.safetensors: tensor "model.embed_tokens.weight": data_offsets: got [13824 27648], beyond the 15447 bytes that follow the header: the file is cut short or its header is wrong`},
	{"bytes after the data", weights(header(oneTensor+"}", 11)), `model mine: safetensors: model.safetensors: got 3 bytes after the last tensor, want none: trailing bytes or a wrong header`},
	{"header of 2^63 bytes", weights(append(binary.LittleEndian.AppendUint64(nil, 1<<63), make([]byte, 64)...)), `model mine: safetensors: model.safetensors: header length: got 9223372036854775808 bytes, want at most 100000000: not a safetensors file`},
	{"header that is no JSON", weights(header(`{"a":`, 8)), `model mine: safetensors: model.safetensors: header: got invalid JSON in 5 bytes, want one object`},
	{"header that is a list", weights(header(`[1]`, 8)), `model mine: safetensors: model.safetensors: header: got "[1]" at its start, want {`},
	{"offsets beyond the file", weights(header(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[800,808]}}`, 8)), `model mine: safetensors: model.safetensors: tensor "a": data_offsets: got [800 808], beyond the 8 bytes that follow the header: the file is cut short or its header is wrong`},
	{"overlapping tensors", weights(header(oneTensor+`,"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12)), `model mine: safetensors: model.safetensors: tensor "b": data_offsets: got [4 12], which overlaps tensor "a" that ends at 8`},
	{"hole between tensors", weights(header(oneTensor+`,"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}}`, 20)), `model mine: safetensors: model.safetensors: tensor "b": data_offsets: got a begin of 12, want 8: a hole of 4 bytes`},
	{"shape that is not the range", weights(header(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8)), `model mine: safetensors: model.safetensors: header: tensor "a": data_offsets: got [0 8], 8 bytes, want 12 (shape [3] of F32)`},
	{"shape beyond 2^63", weights(header(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}`, 8)), `model mine: safetensors: model.safetensors: header: tensor "a": shape: got [4294967296 4294967296] of F32, which is more than 2^63 bytes`},
	{"end before begin", weights(header(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8)), `model mine: safetensors: model.safetensors: header: tensor "a": data_offsets: got [8 0], want an end that is not before the begin`},
	{"tensor named twice", weights(header(oneTensor+`,"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}`, 16)), `model mine: safetensors: model.safetensors: header: key "a": stands twice, want it once`},
	{"unknown dtype", weights(header(`{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,8]}}`, 8)), `model mine: safetensors: model.safetensors: header: tensor "a": dtype: got unknown "F4", want one of BF16 BOOL C64 F16 F32 F64 F8_E4M3 F8_E5M2 I16 I32 I64 I8 U16 U32 U64 U8`},
	{"dtype that nothing computes", weights(header(`{"model.embed_tokens.weight":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}`, 8)), `model mine: weights: embed: dtype I64, want F32, F16 or BF16`},
	{"tensors of another model", weights(header(oneTensor+"}", 8)), `model mine: weights: embed: missing, want model.embed_tokens.weight: the checkpoint has 1 tensors of other names, such as a`},
	{"no weights", remove("model.safetensors"), `model mine: safetensors: found neither model.safetensors nor model.safetensors.index.json, want one of them: open DIR/model.safetensors: no such file or directory`},
	{"no config.json", remove("config.json"), `model mine: found no config.json, want it beside the weights: open DIR/config.json: no such file or directory`},
	{"no folder", func(t *testing.T, dir string) {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}, `model mine: found no config.json, want it beside the weights: open DIR/config.json: no such file or directory`},
	{"index that is no JSON", shards(func([]string) string { return "<html>" }), `model mine: safetensors: model.safetensors.index.json: got an HTML page, want a JSON object with weight_map`},
	{"missing shard", shards(func(names []string) string {
		return weightMap(names, `,"model.layers.7.mlp.up_proj.weight":"model-00002-of-00002.safetensors"`)
	}), `model mine: safetensors: shard model-00002-of-00002.safetensors: missing, want it beside the model.safetensors.index.json that names it: open DIR/model-00002-of-00002.safetensors: no such file or directory`},
	{"index naming an absent tensor", shards(func(names []string) string {
		return weightMap(names, `,"model.layers.7.mlp.up_proj.weight":"model-00001-of-00002.safetensors"`)
	}), `model mine: safetensors: tensor "model.layers.7.mlp.up_proj.weight": in no shard, but model.safetensors.index.json puts it in model-00001-of-00002.safetensors`},
	{"index that forgets a tensor", shards(func(names []string) string { return weightMap(names[1:], "") }), `model mine: safetensors: tensor "lm_head.weight": found in model-00001-of-00002.safetensors, but model.safetensors.index.json does not name it`},
	{"extra shard", func(t *testing.T, dir string) {
		shards(func(names []string) string { return weightMap(names, "") })(t, dir)
		write(t, filepath.Join(dir, "model-00002-of-00002.safetensors"), header(oneTensor+"}", 8))
	}, `model mine: safetensors: model-00002-of-00002.safetensors: a shard that model.safetensors.index.json does not name, want it gone or the index that belongs to it`},
	{"metadata alone", weights(header(`{"__metadata__":{"format":"pt"}}`, 0)), `model mine: weights: embed: missing, want model.embed_tokens.weight`},
	{"tensor of no length", weights(header(`{"model.embed_tokens.weight":{"dtype":"F16","shape":[0,24],"data_offsets":[0,0]}}`, 0)), `model mine: weights: embed: shape [0 24], want [288 24] (config.json vocab_size=288 hidden_size=24)`},
	{"untied without a head", without("lm_head.weight"), `model mine: weights: head: missing, want lm_head.weight (config.json tie_word_embeddings=false)`},
	{"tied without an embedding", func(t *testing.T, dir string) {
		setting(`"tie_word_embeddings": false`, `"tie_word_embeddings": true`)(t, dir)
		without("model.embed_tokens.weight")(t, dir)
	}, `model mine: weights: embed: missing, want model.embed_tokens.weight: the checkpoint has 20 tensors of other names, such as lm_head.weight`},
	{"shard outside the folder", shards(func(names []string) string { return weightMap(names, `,"x":"../secret.safetensors"`) }), `model mine: safetensors: model.safetensors.index.json: weight_map: "x": got shard "../secret.safetensors", want the name of a .safetensors file in the same folder`},
	{"vocabulary that contradicts config.json", setting(`"vocab_size": 288`, `"vocab_size": 300`), `model mine: weights: embed: shape [288 24], want [300 24] (config.json vocab_size=300 hidden_size=24)`},
	{"width that contradicts config.json", setting(`"hidden_size": 24`, `"hidden_size": 32`), `model mine: weights: embed: shape [288 24], want [288 32] (config.json vocab_size=288 hidden_size=32)`},
	{"key dimension that contradicts config.json", setting(`"linear_key_head_dim": 5`, `"linear_key_head_dim": 6`), `model mine: weights: layers.0.gdn.q: shape [25 24], want [30 24] (config.json linear_num_key_heads=5 linear_key_head_dim=6 hidden_size=24)`},
	{"more layers in config.json", func(t *testing.T, dir string) {
		setting(`"num_hidden_layers": 1`, `"num_hidden_layers": 2`)(t, dir)
		setting(`"linear_attention"`, `"linear_attention", "linear_attention"`)(t, dir)
	}, `model mine: weights: layers.1.norm_a: missing, want model.layers.1.attention_layer_norm.weight or model.layers.1.input_layernorm.weight: the checkpoint has no layer 1 (config.json num_hidden_layers=2)`},
	{"fewer layers in config.json", func(t *testing.T, dir string) {
		files, err := construct.Files("sbr")
		if err != nil {
			t.Fatal(err)
		}
		for name, data := range files {
			write(t, filepath.Join(dir, name), data)
		}
		setting(`"num_hidden_layers": 4`, `"num_hidden_layers": 3`)(t, dir)
		setting(",\n  \"full_attention\"", "")(t, dir)
	}, `model mine: weights: model.layers.3.mlp.down_proj.weight: got layer 3, want layers 0 to 2 (config.json num_hidden_layers=3)`},
	{"fewer layer types than layers", setting(`"num_hidden_layers": 1`, `"num_hidden_layers": 2`), `model mine: config: layer_types: got 1 layers, want 2 (num_hidden_layers)`},
	{"layer of another kind", setting(`"linear_attention"`, `"full_attention"`), `model mine: weights: layers.0.attn.q: missing, want model.layers.0.self_attn.q_proj.weight: layer 0 has linear_attn weights (config.json layer_types: full_attention)`},
	{"unknown layer type", setting(`"linear_attention"`, `"mamba"`), `model mine: config: layer_types: layer 0: got "mamba", want full_attention or linear_attention (olmo_hybrid)`},
	{"unknown model_type", setting(`"olmo_hybrid"`, `"llama"`), `model mine: config: model_type: got "llama", want olmo3, olmo_hybrid, qwen3_5, qwen3_5_text or qwen3_next`},
	{"no model_type", setting(`"model_type"`, `"model"`), `model mine: config: model_type: missing, want olmo3, olmo_hybrid, qwen3_5, qwen3_5_text or qwen3_next`},
	{"unsupported option", setting(`"attention_bias": false`, `"attention_bias": true`), `model mine: config: attention_bias: got true, want false: not supported`},
	{"unsupported activation", setting(`"silu"`, `"gelu"`), `model mine: config: hidden_act: got "gelu", want "silu": not supported`},
	{"size that is no number", setting(`"hidden_size": 24`, `"hidden_size": "wide"`), `model mine: config: hidden_size: got "wide", want an integer from 1 to 1048576`},
	{"config.json that is no JSON", setting("{", "<"), `model mine: config: config.json: got "<\n \"architectures\": [\n \"OlmoHybridForCa", want a JSON object`},
	{"NaN in a matrix", value("model.layers.0.mlp.up_proj.weight", 7, 0x7e00), `model mine: weights: layers.0.mlp.up: element 7 of model.layers.0.mlp.up_proj.weight: got NaN or infinity, want finite numbers: the checkpoint is damaged or its training diverged`},
	{"infinity in a vector", value("model.norm.weight", 3, 0x7c00), `model mine: weights: norm: element 3 of model.norm.weight: got NaN or infinity, want finite numbers: the checkpoint is damaged or its training diverged`},
}

func TestBadCheckpoints(t *testing.T) {
	for _, test := range badCheckpoints {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "mine")
			if err := construct.Write("st", dir); err != nil {
				t.Fatal(err)
			}
			tokenizer := filepath.Join(zoo, "tokenizer.json")
			write(t, filepath.Join(dir, "golden.safetensors"), nil)
			test.damage(t, dir)
			said := func(text string) string { return strings.ReplaceAll(text, dir, "DIR") }

			code, out, err := command("run", "--device", "cpu", "--model", dir, "--tokenizer", tokenizer, prompt)
			if code != exitFailed || out != "" || said(err) != "shellgame: "+test.want+"\n" {
				t.Errorf("run: exit %d, stdout %q, stderr\n%s want\nshellgame: %s", code, out, said(err), test.want)
			}
			code, out, err = command("verify", "--device", "cpu", dir)
			_, line, _ := strings.Cut(said(out), "\n")
			if code != exitFailed || err != "" || line != "FAIL DIR: "+test.want+"\n" {
				t.Errorf("verify: exit %d, stderr %q, stdout\n%s want\nFAIL DIR: %s", code, err, line, test.want)
			}
		})
	}
}

// What is not broken must run, or the cases above would show nothing.
func TestGoodCheckpoint(t *testing.T) {
	for name, change := range map[string]broken{
		"one file": func(*testing.T, string) {},
		"a shard":  shards(func(names []string) string { return weightMap(names, "") }),
		"misaligned header": func(t *testing.T, dir string) { // whose data begin at an odd byte
			data := read(t, filepath.Join(dir, "model.safetensors"))
			n := binary.LittleEndian.Uint64(data)
			odd := binary.LittleEndian.AppendUint64(nil, n+5)
			weights(slices.Concat(odd, data[8:8+n], []byte("     "), data[8+n:]))(t, dir)
		},
		"tied with a head": setting(`"tie_word_embeddings": false`, `"tie_word_embeddings": true`),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "mine")
			if err := construct.Write("st", dir); err != nil {
				t.Fatal(err)
			}
			change(t, dir)
			code, out, err := command("run", "--device", "cpu", "--model", dir, "--max-new", "1", prompt)
			if code != exitOK || out != "2\n" {
				t.Errorf("exit %d, stdout %q, stderr %q", code, out, err)
			}
		})
	}
}

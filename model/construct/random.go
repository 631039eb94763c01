package construct

import (
	"bufio"
	"context"
	"embed"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/safetensors"
)

// shapes are config.json files by name. qwen3.5-0.8b has the sizes of the language model of
// Qwen3.5-0.8B, as config.json files of models made from it give them on the Hugging Face hub; the
// others are smaller ones of the same make.
//
//go:embed shapes
var shapes embed.FS

// Shapes lists the names that [Shape] knows.
func Shapes() []string {
	files, err := shapes.ReadDir("shapes")
	if err != nil {
		panic(err) // embedded
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".json"))
	}
	return names
}

// Shape returns the config.json of that name, or false.
func Shape(name string) ([]byte, bool) {
	b, err := shapes.ReadFile("shapes/" + name + ".json")
	return b, err == nil
}

// Random is a checkpoint of random weights, which generates nonsense at the speed and the size of a
// trained one.
type Random struct {
	Config []byte            // config.json of any family
	DType  safetensors.DType // F32, F16 or BF16: of all tensors
	Seed   uint64            // the same seed gives the same weights, whatever type and shards hold them
	Shard  int64             // bytes of tensors in a file at most, beyond its first; 0 is one file
	Files  map[string][]byte // other files to write, such as tokenizer.json
}

// Write makes the folder dir with the checkpoint, as [Write] does, tensor by tensor. Once ctx is done
// nothing is left of it.
func (r Random) Write(ctx context.Context, dir string) error {
	cfg, err := config.Parse(r.Config)
	if err != nil {
		return fmt.Errorf("construct: %w", err)
	}
	var entries []safetensors.Entry
	for _, t := range config.Tensors(cfg) {
		entries = append(entries, model.RandomTensor(t, r.DType, r.Seed))
	}
	files := map[string][]byte{"config.json": r.Config}
	maps.Copy(files, r.Files)
	shards := map[string][]safetensors.Entry{"model.safetensors": entries}
	if r.Shard > 0 {
		var index []byte
		if shards, index, err = safetensors.Split(entries, r.Shard); err != nil {
			return fmt.Errorf("construct: %w", err)
		}
		files["model.safetensors.index.json"] = index
	}
	return folder(dir, func(temp string) error {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if err := writeFile(filepath.Join(temp, name), files[name]); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(shards)) {
			err := createFile(filepath.Join(temp, name), func(w io.Writer) error {
				b := bufio.NewWriterSize(until{ctx, w}, 1<<20)
				if err := safetensors.Write(b, shards[name], map[string]string{"format": "pt"}); err != nil {
					return err
				}
				return b.Flush()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// until writes to w until ctx is done.
type until struct {
	ctx context.Context
	w   io.Writer
}

func (u until) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}

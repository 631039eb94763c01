package model

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"shellgame/model/safetensors"
	"shellgame/webgpu"
)

// fileLimit bounds config.json and tokenizer.json: published ones stay below 20 MB.
const fileLimit = 64 << 20

// Open looks at a checkpoint and loads it. Progress counts bytes of weights and may be nil.
func Open(ctx context.Context, dev webgpu.Device, name string, files safetensors.Files, progress safetensors.Progress) (*Model, error) {
	s, err := Look(name, files)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Load(ctx, dev, LoadOptions{Progress: progress})
}

// ReadTokenizer returns tokenizer.json from the first of places that has one.
func ReadTokenizer(places ...safetensors.Files) ([]byte, error) {
	for _, files := range places {
		data, err := safetensors.ReadFile(files, "tokenizer.json", fileLimit)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return data, err
	}
	return nil, fmt.Errorf("tokenizer.json: found none with the model or in the folder above, want one in either place or by --tokenizer FILE: %w", fs.ErrNotExist)
}

package model

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
)

// fileLimit bounds config.json and tokenizer.json: published ones stay below 20 MB.
const fileLimit = 64 << 20

// Open loads the model whose files are config.json and model.safetensors, or the shards that
// model.safetensors.index.json names. Progress counts bytes of weights and may be nil.
func Open(ctx context.Context, dev webgpu.Device, name string, files safetensors.Files, progress safetensors.Progress) (*Model, error) {
	data, err := safetensors.ReadFile(files, "config.json", fileLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("model %s: found no config.json, want it beside the weights: %w", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	cfg, err := config.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	ck, err := safetensors.OpenCheckpoint(files)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	defer ck.Close()
	ck.Progress = progress
	m, err := Load(ctx, dev, name, cfg, ck)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	return m, nil
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

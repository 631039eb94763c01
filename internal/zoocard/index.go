package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/task"
)

// index is index.json: what a page needs to offer the zoo before it fetches
// anything else.
type index struct {
	Version   int     `json:"version"`
	Tokenizer file    `json:"tokenizer"`
	Models    []model `json:"models"`
}

type model struct {
	Name        string    `json:"name"` // and folder
	Task        task.Task `json:"task"`
	Arch        string    `json:"arch"`
	Layers      string    `json:"layers"` // G for GDN, A for attention, first to last
	NegEigval   bool      `json:"neg_eigval"`
	Constructed bool      `json:"constructed"` // written down, not trained
	Params      int       `json:"params"`
	Description string    `json:"description"`
	Samples     int       `json:"samples,omitempty"`  // programs per size of Accuracy
	Accuracy    []score   `json:"accuracy,omitempty"` // eval.json's, in order of n
	Files       []file    `json:"files"`

	shape *config.Config
	eval  *eval
}

type file struct {
	Name   string `json:"name"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

type score struct {
	N        int     `json:"n"`
	Accuracy float64 `json:"accuracy"`
}

// accuracies is {"4": 1.0, ...} in eval.json.
type accuracies map[string]float64

func (a accuracies) scores() ([]score, error) {
	var out []score
	for n, acc := range a {
		size, err := strconv.Atoi(n)
		if err != nil || acc < 0 || acc > 1 {
			return nil, fmt.Errorf("got accuracy %q: %v, want a size and a share of 1", n, acc)
		}
		out = append(out, score{size, acc})
	}
	slices.SortFunc(out, func(a, b score) int { return cmp.Compare(a.N, b.N) })
	return out, nil
}

// eval is eval.json.
type eval struct {
	Task   task.Task `json:"task"`
	Arch   string    `json:"arch"`
	Member struct {
		Neg float64 `json:"neg"`
		LR  float64 `json:"lr"`
	} `json:"member"`
	Steps    int                   `json:"steps"`
	Seconds  int                   `json:"seconds"`
	Batch    int                   `json:"batch"`
	Params   int                   `json:"params"`
	Accuracy accuracies            `json:"accuracy"`
	Samples  int                   `json:"samples"`
	Trained  []int                 `json:"trained_levels"`
	Metric   string                `json:"metric"`
	Members  map[string]accuracies `json:"members"` // by "number:neg:lr"
	Device   string                `json:"device"`  // of a constructed model's scores
	Adapter  string                `json:"adapter"`
}

var archs = []string{"transformer", "gdn-pos", "gdn-neg", "hybrid-pos", "hybrid-neg", "constructed"}

// build returns index.json and all cards by their path below dir.
func build(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("zoocard: %w", err)
	}
	idx := index{Version: 1}
	if idx.Tokenizer, err = describe(dir, "tokenizer.json"); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		m, err := load(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("zoocard: %s: %w", e.Name(), err)
		}
		idx.Models = append(idx.Models, *m)
	}
	slices.SortFunc(idx.Models, func(a, b model) int {
		return cmp.Or(
			cmp.Compare(slices.Index(task.Tasks(), a.Task), slices.Index(task.Tasks(), b.Task)),
			cmp.Compare(slices.Index(archs, a.Arch), slices.Index(archs, b.Arch)),
		)
	})
	out := map[string][]byte{}
	for _, m := range idx.Models {
		if out[m.Name+"/README.md"], err = card(m); err != nil {
			return nil, fmt.Errorf("zoocard: %s: %w", m.Name, err)
		}
	}
	raw, err := json.MarshalIndent(idx, "", " ")
	if err != nil {
		return nil, fmt.Errorf("zoocard: %w", err)
	}
	out["index.json"] = append(raw, '\n')
	return out, nil
}

func describe(dir, name string) (file, error) {
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return file{}, fmt.Errorf("zoocard: %w", err)
	}
	sum := sha256.Sum256(raw)
	return file{name, len(raw), hex.EncodeToString(sum[:])}, nil
}

// load reads one checkpoint's folder, named TASK-ARCH.
func load(dir string) (*model, error) {
	m := &model{Name: filepath.Base(dir)}
	prefix, arch, _ := strings.Cut(m.Name, "-")
	var err error
	if m.Task, err = task.ParseTask(prefix); err != nil {
		return nil, err
	}
	m.Arch = arch
	if !slices.Contains(archs, arch) {
		return nil, fmt.Errorf("got architecture %q, want one of %s", arch, strings.Join(archs, ", "))
	}
	m.Constructed = arch == "constructed"
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	if m.shape, err = config.Parse(raw); err != nil {
		return nil, err
	}
	for _, l := range m.shape.Layers {
		if l.Kind == config.GDN {
			m.Layers += "G"
		} else {
			m.Layers += "A"
		}
	}
	m.NegEigval = m.shape.NegEig && strings.Contains(m.Layers, "G")
	weights, err := safetensors.OpenCheckpoint(safetensors.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer weights.Close()
	if _, err := config.Resolve(m.shape, weights); err != nil {
		return nil, err
	}
	for _, name := range weights.Names() {
		t, _ := weights.Tensor(name)
		if t.DType != safetensors.F16 {
			return nil, fmt.Errorf("%s: got %s, but the card says F16", name, t.DType)
		}
		m.Params += t.Elems()
	}
	for _, name := range []string{"config.json", "model.safetensors", "eval.json"} {
		f, err := describe(dir, name)
		if name == "eval.json" && m.Constructed && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m.Files = append(m.Files, f)
	}
	if len(m.Files) == 3 {
		raw, err := os.ReadFile(filepath.Join(dir, "eval.json"))
		if err != nil {
			return nil, err
		}
		if err := m.read(raw); err != nil {
			return nil, fmt.Errorf("eval.json: %w", err)
		}
	}
	m.Description = m.describe()
	return m, nil
}

// read takes eval.json and checks it against what the folder holds.
func (m *model) read(raw []byte) error {
	m.eval = &eval{}
	if err := json.Unmarshal(raw, m.eval); err != nil {
		return err
	}
	e := m.eval
	if e.Task != m.Task || e.Arch != m.Arch || e.Params != m.Params {
		return fmt.Errorf("got task %s, architecture %s, %d parameters, want %s, %s, %d as in the folder", e.Task, e.Arch, e.Params, m.Task, m.Arch, m.Params)
	}
	if e.Samples < 1 || len(e.Accuracy) == 0 {
		return fmt.Errorf("got %d samples at %d sizes, want some", e.Samples, len(e.Accuracy))
	}
	var err error
	m.Samples = e.Samples
	m.Accuracy, err = e.Accuracy.scores()
	return err
}

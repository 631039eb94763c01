package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"shellgame/internal/version"
	"shellgame/model"
	"shellgame/model/safetensors"
	"shellgame/model/sample"
	"shellgame/model/tokenizer"
	"shellgame/model/tokenizer/chat"
	"shellgame/task"
	"shellgame/webgpu"
)

type runCmd struct {
	deviceFlag
	weightsFlag
	Model     string   `help:"Folder with config.json, the weights and, in it or above it, tokenizer.json; or name it first." type:"path" placeholder:"DIR"`
	Tokenizer string   `help:"Another tokenizer.json." type:"path" placeholder:"FILE"`
	MaxNew    int      `help:"Most tokens to generate." default:"64"`
	Temp      float64  `help:"Temperature; 0 takes the most probable token." default:"0"`
	TopK      int      `help:"Choose among this many of the most probable tokens; 0 is all." default:"0"`
	TopP      float64  `help:"Choose among the most probable tokens that together have this share." default:"1"`
	Seed      uint64   `help:"Seed of the choice where --temp is above 0." default:"1"`
	Stop      []string `help:"End before this text; may be given several times." sep:"none" placeholder:"TEXT"`
	Raw       bool     `help:"Take the prompt as it is, without the checkpoint's chat template."`
	System    string   `help:"What a chat template tells the model first." placeholder:"TEXT"`
	Context   int      `help:"Most tokens of a conversation." default:"2048"`
	Trace     string   `help:"Read prompt and answer again token by token, and write the trace to this file." type:"path" placeholder:"FILE"`
	State     string   `help:"Which steps of the trace keep the recurrent state: all, every=N or last." default:"last"`
	First     *string  `arg:"" optional:"" name:"dir|prompt" help:"The folder, where --model does not name it, or the prompt: what the model reads first; a one-line, unfinished program is fine. Without a prompt, and at a terminal, a conversation."`
	Second    *string  `arg:"" optional:"" name:"prompt" help:"The prompt after a folder."`
}

// arguments tells the folder, where it is named first, from the prompt.
func (c *runCmd) arguments() (m modelFlag, prompt *string, err error) {
	m = modelFlag{Model: c.Model, Tokenizer: c.Tokenizer, weightsFlag: c.weightsFlag}
	if m.Model != "" {
		if c.Second != nil {
			return m, nil, usage("run: got two prompts, want one: quote it")
		}
		return m, c.First, nil
	}
	if c.First == nil {
		return m, nil, usage("run: got no folder of a model, want --model DIR or DIR")
	}
	if info, err := os.Stat(*c.First); err != nil || !info.IsDir() {
		return m, nil, usage("missing flags: --model=DIR, and %q is no folder", *c.First)
	}
	m.Model = *c.First
	return m, c.Second, nil
}

func (c *runCmd) Run(a *app) error {
	if c.MaxNew < 1 {
		return usage("--max-new: got %d, want 1 or more", c.MaxNew)
	}
	if c.Context < 2 {
		return usage("--context: got %d, want 2 or more", c.Context)
	}
	if slices.Contains(c.Stop, "") {
		return usage("--stop: got an empty text, want one that can be met")
	}
	if _, err := keepStates(c.State, 1); err != nil {
		return err
	}
	if _, err := c.sampler(); err != nil {
		return err
	}
	mf, prompt, err := c.arguments()
	if err != nil {
		return err
	}
	talk := prompt == nil
	switch {
	case talk && c.Trace != "":
		return usage("--trace: want a prompt: a conversation is not traced")
	case talk && !term.IsTerminal(int(os.Stdin.Fd())):
		return usage("run: got no prompt, want one after the flags, or a terminal to talk in")
	}
	if c.Trace != "" {
		if info, err := os.Stat(filepath.Dir(c.Trace)); err != nil || !info.IsDir() {
			return fmt.Errorf("--trace: %s is no folder, want one to write %s in", filepath.Dir(c.Trace), filepath.Base(c.Trace))
		}
	}
	tok, err := mf.tokenizer()
	if err != nil {
		return err
	}
	g := &generation{cmd: c, app: a, tok: tok}
	if !c.Raw {
		if g.chat, err = mf.chat(tok); err != nil {
			return fmt.Errorf("%w; --raw takes the prompt as it is", err)
		}
	}
	if c.System != "" && g.chat == nil {
		return usage("--system: %s is asked without a chat template, put it into the prompt", mf.name())
	}
	var ids []int
	if !talk {
		if ids, err = g.encode(c.conversation(*prompt)); err != nil {
			return err
		}
	}
	dev, m, err := begin(a, c.deviceFlag, mf)
	if err != nil {
		return err
	}
	defer dev.Close()
	if err := g.prepare(m, dev, mf, ids, talk); err != nil {
		return err
	}
	if talk {
		return g.talk()
	}
	if _, err := g.answer(a.ctx, ids); err != nil {
		return err
	}
	if c.Trace != "" {
		return g.trace()
	}
	return nil
}

func (c *runCmd) sampler() (*sample.Sampler, error) {
	s, err := sample.New(sample.Options{Temp: c.Temp, TopK: c.TopK, TopP: c.TopP, Seed: c.Seed})
	if err != nil {
		return nil, usage("--%w", err)
	}
	return s, nil
}

// conversation begins with what the system is told.
func (c *runCmd) conversation(prompt string) []chat.Message {
	var m []chat.Message
	if c.System != "" {
		m = append(m, chat.Message{Role: "system", Content: c.System})
	}
	return append(m, chat.Message{Role: "user", Content: prompt})
}

// chat reads the checkpoint's chat template. A tokenizer of words has none.
func (f modelFlag) chat(tok tokenizer.Tokenizer) (*chat.Template, error) {
	if _, ok := tok.(*tokenizer.Words); ok {
		return nil, nil
	}
	config, err := f.file("tokenizer_config.json")
	if err != nil {
		return nil, err
	}
	jinja, err := f.file("chat_template.jinja")
	if err != nil {
		return nil, err
	}
	return chat.Load(config, jinja)
}

// file reads a file of the model's folder, nil where there is none.
func (f modelFlag) file(name string) ([]byte, error) {
	data, err := safetensors.ReadFile(safetensors.Dir(f.Model), name, 16<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// ends are the tokens that end an answer: those of config.json and generation_config.json, and in
// a chat the one that ends what the assistant says.
func (g *generation) ends(m *model.Model, f modelFlag) (map[int]bool, error) {
	ends := map[int]bool{}
	for _, id := range m.Config.EOSAll {
		ends[id] = true
	}
	data, err := f.file("generation_config.json")
	if err != nil {
		return nil, err
	}
	if data != nil {
		var c struct {
			EOS json.RawMessage `json:"eos_token_id"`
		}
		var one int
		var several []int
		if err := json.Unmarshal(data, &c); err != nil {
			return nil, fmt.Errorf("generation_config.json: %w", err)
		}
		switch {
		case len(c.EOS) == 0 || string(c.EOS) == "null":
		case json.Unmarshal(c.EOS, &one) == nil:
			ends[one] = true
		case json.Unmarshal(c.EOS, &several) == nil:
			for _, id := range several {
				ends[id] = true
			}
		default:
			return nil, fmt.Errorf("generation_config.json: eos_token_id: got %.40q, want a token or a list of them", c.EOS)
		}
	}
	if g.chat != nil {
		if id, ok := g.tok.ID(g.chat.EOS()); ok {
			ends[id] = true
		}
	}
	return ends, nil
}

// generation is a model that answers.
type generation struct {
	cmd     *runCmd
	app     *app
	tok     tokenizer.Tokenizer
	chat    *chat.Template // nil: prompts as they are
	model   *model.Model
	device  string
	runner  *model.Runner
	session *model.Session
	sampler *sample.Sampler
	eos     map[int]bool
	read    []int // prompt and answer of the last call
}

// prepare makes what is needed for a prompt, or for a conversation, pipelines included.
func (g *generation) prepare(m *model.Model, dev webgpu.Device, f modelFlag, ids []int, talk bool) (err error) {
	g.model, g.device = m, describe(dev)
	if n := g.tok.N(); n > m.Config.N {
		return fmt.Errorf("tokenizer.json has tokens up to %d, %s a vocabulary of %d (vocab_size): they do not belong together", n-1, m.Name, m.Config.N)
	}
	if g.eos, err = g.ends(m, f); err != nil {
		return err
	}
	if g.sampler, err = g.cmd.sampler(); err != nil {
		return err
	}
	o := model.Options{Seqs: 1, Positions: min(g.cmd.Context, m.Config.MaxPos), Tokens: 512}
	if !talk {
		switch most := m.Config.MaxPos - len(ids); {
		case most < 1:
			return fmt.Errorf("run: the prompt has %d tokens, %s reads at most %d (max_position_embeddings): shorten it", len(ids), m.Name, m.Config.MaxPos)
		case g.cmd.MaxNew > most:
			return fmt.Errorf("run: --max-new asks for %d tokens, after this prompt %s has room for %d (max_position_embeddings %d): ask for fewer", g.cmd.MaxNew, m.Name, most, m.Config.MaxPos)
		}
		o.Positions, o.Tokens = len(ids)+g.cmd.MaxNew, min(len(ids), 512)
	}
	if g.runner, err = m.NewRunner(o); err != nil {
		return err
	}
	if talk {
		return nil
	}
	// Pipelines are made before the clock starts.
	warm := g.runner.NewSession()
	for _, n := range []int{o.Tokens, 1} {
		if _, err := warm.Prefill(g.app.ctx, ids[:n], true); err != nil {
			return err
		}
		warm.Release()
	}
	if !g.sampler.Greedy() {
		return nil
	}
	defer warm.Release()
	if _, err = warm.Continue(g.app.ctx, ids[0], 1); err != nil {
		return err
	}
	return g.runner.MakeReady(g.app.ctx, len(ids), o.Positions-1)
}

// encode writes a conversation as tokens: by the chat template, else the last message as it is.
func (g *generation) encode(messages []chat.Message) ([]int, error) {
	last := messages[len(messages)-1].Content
	if g.chat == nil {
		return encode(g.tok, last)
	}
	text, err := g.chat.Render(messages)
	if err != nil {
		return nil, err
	}
	// A template writes the first token itself.
	prefix, err := g.tok.Encode("")
	if err != nil {
		return nil, err
	}
	ids, err := g.tok.Encode(text)
	if err != nil {
		return nil, err
	}
	if ids = ids[len(prefix):]; len(ids) == 0 {
		return nil, errors.New("chat template: got an empty prompt, want some text")
	}
	return ids, nil
}

// encode reads a prompt as a program where the tokenizer is the zoo's, so that free spacing and
// new lines are welcome; any other text goes to the tokenizer as it is.
func encode(tok tokenizer.Tokenizer, text string) ([]int, error) {
	if id, ok := tok.ID("a,b,c,d,e=range(5)"); ok && tok.N() == task.NumWords && id >= 0 {
		p, err := task.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("program: %w", err)
		}
		var ids []int
		for _, t := range p.Tokens() {
			ids = append(ids, int(t.ID))
		}
		return ids, nil
	}
	ids, err := tok.Encode(text)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, errors.New("run: the prompt is empty")
	}
	return ids, nil
}

// answer reads a prompt, prints what the model goes on with, and notes how fast. What the session
// has read already is not read again.
func (g *generation) answer(ctx context.Context, ids []int) (string, error) {
	fresh := ids
	if s := g.session; s != nil && len(s.IDs) < len(ids) && slices.Equal(s.IDs, ids[:len(s.IDs)]) {
		fresh = ids[len(s.IDs):]
	} else {
		if s != nil {
			s.Release()
		}
		g.session = g.runner.NewSession()
	}
	room := g.runner.Opts.Positions - len(ids)
	if room < 1 {
		return "", fmt.Errorf("run: the conversation has %d tokens, at most %d are read (--context): /new begins another", len(ids), g.runner.Opts.Positions)
	}
	start := time.Now()
	out, err := g.session.Prefill(ctx, fresh, !g.sampler.Greedy())
	if err != nil {
		return "", err
	}
	prefill := time.Since(start)
	g.read = slices.Clone(ids)
	text := &printer{out: g.app.out, stops: g.cmd.Stop, plain: isTerminal(g.app.out)}
	stream := tokenizer.NewStream(g.tok)
	n, unknown := 0, 0
	start = time.Now()
	for id, err := range g.sampler.Tokens(ctx, g.session, out, min(g.cmd.MaxNew, room)) {
		if err != nil {
			return "", err
		}
		if g.eos[id] {
			break
		}
		n++
		g.read = append(g.read, id)
		part, err := stream.Next(id)
		if err != nil {
			unknown++
		}
		if text.add(part); text.stopped {
			break
		}
	}
	text.add(stream.End())
	text.end()
	decode := time.Since(start)
	note := fmt.Sprintf("%s: prefill %d tokens at %.0f tokens/s", g.device, len(fresh), float64(len(fresh))/prefill.Seconds())
	if n > 1 { // the first new token is the prefill's
		note += fmt.Sprintf(", decode %d at %.0f tokens/s", n-1, float64(n-1)/decode.Seconds())
	}
	if unknown > 0 {
		note += fmt.Sprintf("; %d tokens have no text in tokenizer.json", unknown)
	}
	g.app.note("%s", note)
	return text.all.String(), nil
}

// printer prints text as it comes, up to a stop word: what may be the beginning of one is held
// back until it is known.
type printer struct {
	out     io.Writer
	stops   []string
	held    string
	stopped bool
	plain   bool            // to a terminal, which must not take text for commands
	all     strings.Builder // what came before a stop word
}

func (p *printer) add(text string) {
	if p.stopped {
		return
	}
	p.held += text
	end := len(p.held)
	for _, stop := range p.stops {
		if i := strings.Index(p.held, stop); i >= 0 && i < end {
			end, p.stopped = i, true
		}
	}
	if p.stopped {
		p.print(p.held[:end])
		p.held = ""
		return
	}
	for _, stop := range p.stops {
		for n := min(len(stop)-1, len(p.held)); n > 0; n-- {
			if strings.HasSuffix(p.held, stop[:n]) {
				end = min(end, len(p.held)-n)
				break
			}
		}
	}
	p.print(p.held[:end])
	p.held = p.held[end:]
}

// end prints what was held back, and a new line.
func (p *printer) end() {
	p.print(p.held)
	p.held = ""
	fmt.Fprintln(p.out)
}

func (p *printer) print(text string) {
	p.all.WriteString(text)
	if p.plain {
		text = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				return utf8.RuneError
			}
			return r
		}, text)
	}
	io.WriteString(p.out, text)
}

// talk is a conversation at the terminal: each line is a message, or without a chat template a
// prompt of its own.
func (g *generation) talk() error {
	g.app.note("%s on %s. /new begins again, Ctrl-C ends an answer, Ctrl-D leaves.", g.model.Name, g.device)
	// Answers alone go to stdout.
	console := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stderr}, "> ")
	var messages []chat.Message
	for {
		line, err := readLine(console)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch strings.TrimSpace(line) {
		case "":
			continue
		case "/new":
			messages = nil
			continue
		case "/quit", "/exit":
			return nil
		}
		before := len(messages)
		if messages == nil || g.chat == nil {
			messages, before = g.cmd.conversation(line), 0
		} else {
			messages = append(messages, chat.Message{Role: "user", Content: line})
		}
		text, err := g.reply(messages)
		if err != nil {
			messages = messages[:before]
			g.app.note("shellgame: %s", oneLine(err))
			continue
		}
		messages = append(messages, chat.Message{Role: "assistant", Content: text})
	}
}

// reply answers a message. An interrupt ends the answer alone.
func (g *generation) reply(messages []chat.Message) (string, error) {
	ids, err := g.encode(messages)
	if err != nil {
		return "", err
	}
	ctx, stop := signal.NotifyContext(context.WithoutCancel(g.app.ctx), os.Interrupt)
	defer stop()
	text, err := g.answer(ctx, ids)
	if err != nil && g.session != nil { // it may have read a part
		g.session.Release()
		g.session = nil
	}
	if ctx.Err() != nil {
		fmt.Fprintln(g.app.out)
		return "", errors.New("interrupted: the message is forgotten")
	}
	return text, err
}

// readLine reads a line with history, the terminal being set for it only meanwhile.
func readLine(console *term.Terminal) (string, error) {
	fd := int(os.Stdin.Fd())
	old, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	defer term.Restore(fd, old)
	if w, h, err := term.GetSize(fd); err == nil && w > 0 {
		console.SetSize(w, h)
	}
	return console.ReadLine()
}

// trace reads prompt and answer again, token by token, and writes the trace.
func (g *generation) trace() error {
	keep, err := keepStates(g.cmd.State, len(g.read))
	if err != nil {
		return err
	}
	g.session.Release()
	g.runner.Release()
	r, err := g.model.NewRunner(model.Options{Tokens: 1, Seqs: 1, Positions: len(g.read), TopK: traceTop, Trace: true})
	if err != nil {
		return err
	}
	defer r.Release()
	info := g.model.Device().Info()
	t := &model.Trace{Version: model.TraceVersion, Generator: "shellgame " + version.Number, Model: g.model.Info(), Device: info.Kind, Adapter: info.Adapter}
	s := r.NewSession()
	bar := g.app.bar("tracing", false)
	defer bar.Exit()
	bar.ChangeMax(len(g.read))
	var source []byte
	for i, id := range g.read {
		step, err := s.TraceStep(g.app.ctx, id)
		if err != nil {
			return err
		}
		step.Word = g.tok.Token(id)
		step.Span[0] = len(source)
		if b, err := g.tok.Bytes(id, i == 0); err == nil {
			source = append(source, b...)
		}
		step.Span[1] = len(source)
		for k := range step.Top {
			step.Top[k].Word = g.tok.Token(step.Top[k].ID)
		}
		if keep != nil && !keep(i) {
			for k := range step.Layers {
				step.Layers[k].State = nil
			}
		}
		t.Steps = append(t.Steps, step)
		bar.Add(1)
	}
	t.Source = sameLength(source)
	t.Program = t.Source
	return writeFile(g.cmd.Trace, t.Write)
}

// sameLength is text in UTF-8, with ? for each byte that can be none, so that offsets hold.
func sameLength(b []byte) string {
	for at := 0; at < len(b); {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			b[at] = '?'
		}
		at += n
	}
	return string(b)
}

// traceTop is how many candidates for the next token a step of a trace keeps.
const traceTop = 8

// writeFile writes a file whole or not at all.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails once it has its name
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

//go:build js || windows || !window

package webgpu

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"testing"
	"time"

	"shellgame/shaders"
)

// What a play reads back is the same however it gets there: copied range by range, or collected
// first as on a GPU; from the slot of the step, and with the counter of the play.
func TestReadBackOfMany(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dev, err := OpenGPU(ctx, "")
	if err != nil {
		if os.Getenv("REQUIRE_DEVICES") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	defer dev.Close()
	d := dev.(*gpuDevice)
	const words = 90
	rec := &Recording{Name: "many reads"}
	var want []byte
	for i := range 9 {
		b, err := d.NewBuffer("source", 4*words*3)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		data := make([]byte, 4*words*3)
		for k := range words * 3 {
			binary.LittleEndian.PutUint32(data[4*k:], uint32(1000*i+k))
		}
		if err := d.Write(b, 0, data); err != nil {
			t.Fatal(err)
		}
		n, stride := 4*(words-7*i), 4*words*(i%2)
		rec.Read(b, 4*i, n, stride)
		want = append(want, data[4*i+2*stride:][:n]...)
	}
	out, err := d.NewBuffer("out", 16)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Release()
	rec.Dispatch("stamp", shaders.Stamp, nil, shaders.StampParams{}, out)
	for _, software := range []bool{true, false} {
		d.info.Software = software
		p, err := d.Prepare(ctx, rec)
		if err != nil {
			t.Fatal(err)
		}
		if collected := p.(*gpuProgram).all != nil; collected == software {
			t.Errorf("software %v: collected %v", software, collected)
		}
		for range 3 { // the counter is another one each time
			got, err := p.Play(ctx, shaders.Step{Slot: 2})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("software %v: read back other bytes than the buffers hold", software)
			}
		}
		if _, err := p.Play(ctx, shaders.Step{Slot: 3}); err == nil {
			t.Errorf("software %v: a slot outside its buffer was read back", software)
		}
		p.Release()
	}
}

package eval_test

import (
	"testing"

	"shellgame/webgpu/gputest"
)

func TestMain(m *testing.M) { gputest.Main(m) }

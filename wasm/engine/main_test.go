package engine

import (
	"os"
	"testing"

	"shellgame/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.M{M: m}.Run()) }

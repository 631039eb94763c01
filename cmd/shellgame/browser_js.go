package main

import (
	"errors"

	"shellgame/model/check"
	"shellgame/model/verify"
	"shellgame/task/eval"
)

// inBrowser is never so here: this build reaches WebGPU itself.
func inBrowser(deviceFlag) bool { return false }

var errNested = errors.New("this build runs inside JavaScript and cannot start a browser")

func checkInBrowser(*app, *checkCmd) (*check.Report, error)     { return nil, errNested }
func verifyInBrowser(*app, *verifyCmd) (*verify.Report, error)  { return nil, errNested }
func evalInBrowser(*app, *evalCmd, []int) (*eval.Result, error) { return nil, errNested }

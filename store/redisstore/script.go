package redisstore

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// script is a Lua script. The server knows it by a hash of its text, so that two
// versions of it, of processes that are being replaced, never meet.
type script struct {
	text string
	sha  any // a string; boxed once
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text, hex.EncodeToString(sum[:])}
}

//go:embed exchange.lua
var exchangeLua string

//go:embed meta.lua
var metaLua string

//go:embed witness.lua
var witnessLua string

var (
	exchangeScript = newScript(exchangeLua)
	metaScript     = newScript(metaLua)
	witnessScript  = newScript(witnessLua)
)

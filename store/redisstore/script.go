package redisstore

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
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

//go:embed exchange/*.lua meta.lua witness.lua
var scripts embed.FS

// exchangeParts are the files of the script of Exchange, in the order in which they
// are one: what a part declares, those after it see.
var exchangeParts = []string{
	"request", "bucket", "short", // what is asked, and the answer to most of it
	"state", "nodes", "limits", // what is there
	"versions", "cooldowns", "slots", "grants", // what may happen to it
	"answer", "write", // what happens, and what is there then
}

var (
	exchangeLua    = join("exchange/", exchangeParts)
	exchangeScript = newScript(exchangeLua)
	metaScript     = newScript(join("", []string{"meta"}))
	witnessScript  = newScript(join("", []string{"witness"}))
)

// join returns the text of files, one after the other. They are part of the program.
func join(folder string, files []string) string {
	var b strings.Builder
	for _, name := range files {
		text, err := scripts.ReadFile(folder + name + ".lua")
		if err != nil {
			panic(err)
		}
		b.Write(text)
	}
	return b.String()
}

package redisstore

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
)

// silent drops what the client has to say about servers that tests take away.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silent{})
	// Most tests wait most of the time, for windows to end and for servers.
	flag.Set("test.parallel", "4") // before the command line is parsed, which wins
	os.Exit(m.Run())
}

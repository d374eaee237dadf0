module github.com/flyball-go/flyball/store/clustertest

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/flyball-go/flyball v0.0.0
	github.com/flyball-go/flyball/store/mysqlstore v0.0.0
	github.com/flyball-go/flyball/store/redisstore v0.0.0
	github.com/go-sql-driver/mysql v1.10.1
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/jackc/puddle/v2 v2.2.3 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	github.com/flyball-go/flyball => ../../
	github.com/flyball-go/flyball/store/mysqlstore => ../mysqlstore
	github.com/flyball-go/flyball/store/redisstore => ../redisstore
)

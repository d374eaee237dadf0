module github.com/flyball-go/flyball/bench

go 1.26.0

require (
	github.com/avast/retry-go/v5 v5.1.1
	github.com/cenkalti/backoff/v5 v5.0.3
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/flyball-go/flyball v0.0.0
	github.com/flyball-go/flyball/store/mysqlstore v0.0.0
	github.com/flyball-go/flyball/store/redisstore v0.0.0
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/gofri/go-github-ratelimit/v2 v2.0.2
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/jackc/puddle/v2 v2.2.3
	github.com/redis/go-redis/v9 v9.23.0
	github.com/sony/gobreaker/v2 v2.4.0
	golang.org/x/sync v0.24.0
	golang.org/x/time v0.16.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-sql-driver/mysql v1.10.1 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace github.com/flyball-go/flyball => ../

replace github.com/flyball-go/flyball/store/mysqlstore => ../store/mysqlstore

replace github.com/flyball-go/flyball/store/redisstore => ../store/redisstore

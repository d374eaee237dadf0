// Package redisstore is an engine of package store on Redis, for processes on many
// machines that share a vendor's quota:
//
//	engine, err := redisstore.New(redisstore.Config{
//		Addrs:    []string{"redis.internal:6380"},
//		TLS:      &tls.Config{},
//		Username: "flyball",
//		Password: func(ctx context.Context) (string, error) { return secrets.Get(ctx, "redis") },
//	})
//	shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
//	g, err := governor.New(governor.PlainConfig{Name: "acme", Store: shared, Limits: limits})
//
// One server, a primary that sentinels watch, and a Cluster are supported, of Redis
// 7.0 or later. Scripts use what Valkey has, too; it was not tested with it.
//
// A [Store] may be used by any number of goroutines at once.
//
// It is not durable, and does not have to be: what the server loses counts as taken.
// A server that was restarted, emptied, or replaced by its replica grants nothing for
// one Per of a limit, and so does one that nobody has used before, unless
// [Store.AssumeUnused] says that it is new. That is known by a witness, a key which
// says since when this process of the server has been the primary; a key that is absent
// counts as unused if the witness is there, no key was evicted since, and no node comes
// that was told its epoch. So do not delete keys by hand, nor reset the server's count
// of evicted keys (CONFIG RESETSTAT): what is deleted counts as unused until a node comes
// that knows better, and then as taken. The first replica that a primary
// ever gets, or gets after an hour without any, makes it a new primary in this sense.
//
// What a limit's window may lose is therefore one Per, and a limit whose Per is a day
// loses a day: keep such limits in a database that is durable.
//
// # What is in Redis
//
// All state of a key is in one hash, gov:{key}, which one script changes. Its files
// are in the folder exchange, each about one subject, joined in the order of script.go;
// request.lua says what is in the hash. It takes the server's clock, counts in
// integers, and tells others what cools, and that there are free slots, by PUBLISH to a
// channel of the hash's name; a Store subscribes to all of them. On a Cluster a
// message goes to all nodes, which is why there is one for changes alone. gov:{.meta}
// has all metadata, gov:{.witness} the witness; on a Cluster each slot has one. A hash
// that was not used for about a day, or ten Pers, expires.
//
// The script has two ways. The short one, short.lua, is for what a node mostly asks:
// permits under one limit, of which there are enough, while nothing is cooling and
// nobody has slots. It reads what it needs in one command, whatever the number of
// nodes, since the hash has their sums, and writes in one. It leaves all else to the
// long way, which looks at all that there is; what both can do, they do alike.
//
// # Access
//
// An ACL user needs no more than this:
//
//	user flyball on >password ~gov:* &gov:* +evalsha +eval +time +info|replication +info|stats +hget +hmget +hgetall +hset +hdel +pexpire +publish +psubscribe +ping +zadd +zrem +zrangebylex
//
// and on a Cluster also +cluster|slots +command +readonly. With sentinels, or a Client,
// also +subscribe +pubsub|numsub, without which the Store works, but does not know that
// it has heard all, and governors' hosts are asked for each store.SyncerConfig.Interval.
// Who may publish to &gov:* and knows what is in a key's hash can have those cool that listen;
// of anybody else a forged message is one more question.
package redisstore

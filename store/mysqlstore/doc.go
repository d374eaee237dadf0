// Package mysqlstore is an engine of package store on MariaDB or MySQL: processes
// share a vendor's limits, cooldowns and slots through a database that they have
// anyway.
//
//	engine, err := mysqlstore.Open(ctx, mysqlstore.Config{DSN: "flyball:secret@tcp(db:3306)/app?tls=true"})
//	shared, err := store.NewSyncer(store.SyncerConfig{Store: engine})
//
// The tables are made by [Migrate], for which a user with more rights may be used;
// Open only checks them, unless Config.AutoMigrate is set. No database is created.
//
// Each key is one row: its version, the server's time of its last change, and its
// store.State. An Exchange reads the rows of its keys, without a lock, decides in this
// process as store.Memory does, and grants by a single statement, which commits by
// itself: it writes all rows with the next version, or none, should one have changed
// since it was read, or be gone, or the server be another. Then all is read and decided
// anew. So an exchange has two round trips, whatever number of limits, nodes and scopes
// the keys have, and for up to 64 keys together; and nothing is ever locked from one
// to the next, so that a process that is stopped keeps nobody waiting. Only who has been
// refused three times, or finds a row locked, locks the rows first, in a transaction of
// four round trips: else who is slower than the others might never come through.
//
// A statement that also computes the grant could do it in one round trip for a key that
// has one limit and nothing else; but an answer has to be kept for its repetition,
// shares depend on the other nodes, and cooldown, probe and slots are decided together
// with them. Those in SQL would be a second model, to be kept equal to the first. A round
// trip more, of an exchange that fetches permits for many calls, is the better price.
//
// Only the server's clock counts, in UTC: neither that of the process nor the time
// zone of a session. What is committed outlives a crash of the server if it has
// innodb_flush_log_at_trx_commit = 1, and sync_binlog = 1 if it writes a binary log.
// Else a restart counts as a loss of state; and so does another server in its place,
// which may not have had the last transactions, and a table that was emptied.
//
// There are no notifications: one query per process and Config.Poll asks for news of
// all keys.
//
// A Store may be used by any number of goroutines at once.
//
// It is tested with MariaDB 10.11. What it says to the server MySQL 8.0 understands
// as well, by its manual; it was not run there. It is not for a cluster of several
// primaries: those tell of a conflict only when a transaction is over.
package mysqlstore

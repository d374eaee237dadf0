package mysqlstore

import "strings"

// queries are the statements of one prefix. Values are placeholders in all of them.
type queries struct {
	lock1, lockN, write1, writeN        string // with one key; and what comes for each further
	seed, count, idle, forget, news     string
	fenceLock, fenceRead                string
	fencePlant, fenceWrite              string
	metaGet, metaList, metaAdd, metaSet string
	metaDrop, metaNext                  string
	version                             string
	where                               string
}

// settings are what each session has; they are checked, since a proxy or a server
// may have other ideas.
const (
	sqlMode  = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
	settings = "SET SESSION sql_mode = '" + sqlMode + "', autocommit = 0, innodb_lock_wait_timeout = 1" +
		"/*M!100300 , idle_transaction_timeout = 1 */"
	isolated = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
)

// utc is the server's time at the beginning of a statement, in microseconds since
// 1970, sys that after the wait for a lock: but it goes by the session's time zone.
const (
	utc = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
	sys = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', SYSDATE(6))"
)

// server is the name of the server as MySQL has it, and, as MariaDB has none, of its
// place.
const (
	serverMySQL   = "@@global.server_uuid"
	serverMariaDB = "CONCAT_WS(':', @@global.hostname, @@global.port, @@global.server_id)"
)

func newQueries(prefix, server string) *queries {
	state, meta := prefix+"state", prefix+"meta"
	// The row of the empty key, which is none, says to which epoch the table belongs.
	q := &queries{
		where: "CONCAT_WS('|', " + server + ", @@global.innodb_flush_log_at_trx_commit, @@global.log_bin, @@global.sync_binlog, @@autocommit, @@sql_mode)",

		seed:   "INSERT IGNORE INTO " + state + " (k, epoch, ver, now_us, news_us, idle_us, state) VALUES (?, ?, 0, 0, 0, ?, '')",
		count:  "SELECT COUNT(*) FROM " + state,
		idle:   "SELECT k FROM " + state + " WHERE idle_us < " + utc + " AND k <> '' ORDER BY idle_us LIMIT 1000",
		forget: "DELETE FROM " + state + " WHERE k = ? AND idle_us < " + utc,
		// Of the empty key, the time.
		news: "(SELECT k, news_us FROM " + state + " WHERE news_us > ? ORDER BY news_us LIMIT 1001) UNION ALL SELECT '', " + utc,

		fenceLock:  "SELECT epoch, state, " + utc + " FROM " + state + " WHERE k = '' FOR UPDATE",
		fenceRead:  "SELECT epoch, " + utc + " FROM " + state + " WHERE k = ''",
		fencePlant: "INSERT IGNORE INTO " + state + " (k, epoch, ver, now_us, news_us, idle_us, state) VALUES ('', ?, 0, 0, 0, 0, ?)",
		fenceWrite: "UPDATE " + state + " SET epoch = ?, state = ?, ver = ver + 1 WHERE k = ''",

		metaGet:  "SELECT k, meta, ver FROM " + meta + " WHERE k = ?",
		metaList: "SELECT k, meta, ver FROM " + meta + " WHERE k LIKE ? ORDER BY k LIMIT ?",
		metaAdd:  "INSERT INTO " + meta + " (k, meta, ver) VALUES (?, ?, ?)",
		metaSet:  "UPDATE " + meta + " SET meta = ?, ver = ? WHERE k = ? AND ver = ?",
		metaDrop: "DELETE FROM " + meta + " WHERE k = ? AND ver = ?",
		// The only assignment, so that no sql_mode changes what it means.
		metaNext: "UPDATE " + prefix + "seq SET ver = LAST_INSERT_ID(ver + 1) WHERE id = 1",

		version: "SELECT MAX(version) FROM " + prefix + "schema",
	}
	// By the primary key alone, whatever the optimizer thinks of a small table:
	// else rows would be locked that nobody asked for.
	q.lock1 = "SELECT k, epoch, ver, now_us, state, " + utc + ", " + sys + ", " + q.where +
		" FROM " + state + " FORCE INDEX (PRIMARY) WHERE k IN (?"
	q.lockN = ", ?"
	// Of a row that has another version than the one that was read, ver would be
	// NULL, which it cannot: then nothing is written. ver is assigned once, and no
	// other assignment looks at it, so that their order is of no matter.
	q.write1 = "INSERT INTO " + state + " (k, epoch, ver, now_us, news_us, idle_us, state) VALUES (?, ?, ?, ?, ?, ?, ?)"
	q.writeN = ", (?, ?, ?, ?, ?, ?, ?)"
	return q
}

const writeEnd = " ON DUPLICATE KEY UPDATE ver = IF(ver + 1 = VALUES(ver), VALUES(ver), NULL), epoch = VALUES(epoch)," +
	" now_us = VALUES(now_us), news_us = IF(VALUES(news_us) = 0, news_us, GREATEST(news_us + 1, VALUES(news_us))), idle_us = VALUES(idle_us), state = VALUES(state)"

// lock is the statement that locks and reads n rows.
func (q *queries) lock(n int) string {
	return q.lock1 + strings.Repeat(q.lockN, n-1) + ") ORDER BY k FOR UPDATE"
}

// write is the one that writes n.
func (q *queries) write(n int) string {
	return q.write1 + strings.Repeat(q.writeN, n-1) + writeEnd
}

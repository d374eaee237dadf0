package mysqlstore

import (
	"math/bits"
	"strings"
)

// queries are the statements of one prefix. Values are placeholders in all of them.
type queries struct {
	read1, readN, seed1, seedN          string // with one key; and what comes for each further
	write1, write2, writeN, writeEnd    string // write1, a placeholder for each key, write2
	count, idle, forget, news           string
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
	settings = "SET SESSION sql_mode = '" + sqlMode + "', autocommit = 1, innodb_lock_wait_timeout = 1" +
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

		count:  "SELECT COUNT(*) FROM " + state,
		idle:   "SELECT k FROM " + state + " WHERE idle_us < " + utc + " AND k <> '' ORDER BY idle_us LIMIT 1000",
		forget: "DELETE FROM " + state + " WHERE k = ? AND idle_us < " + utc,
		// Of the empty key, the time.
		news: "(SELECT k, news_us FROM " + state + " WHERE news_us > ? ORDER BY news_us LIMIT 1001) UNION ALL SELECT '', " + utc,

		fenceLock:  "SELECT epoch, state, " + utc + " FROM " + state + " WHERE k = '' FOR UPDATE",
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
	q.fenceRead = "SELECT epoch, " + utc + ", " + q.where + " FROM " + state + " WHERE k = ''"
	// A row's version begins with the time at which it was made: so one that was removed
	// and made anew has another than any that it had before.
	seed := "(?, ?, " + utc + ", 0, 0, " + utc + " + 3600000000, '')"
	q.seed1 = "INSERT IGNORE INTO " + state + " (k, epoch, ver, now_us, news_us, idle_us, state) VALUES " + seed
	q.seedN = ", " + seed
	// By the primary key alone, whatever the optimizer thinks of a small table:
	// else rows would be locked that nobody asked for.
	q.read1 = "SELECT k, epoch, ver, now_us, state, " + utc + ", " + sys + ", " + q.where +
		" FROM " + state + " FORCE INDEX (PRIMARY) WHERE k IN (?"
	q.readN = ", ?"
	// What is written, and all of it or nothing:
	//   - where the session began, as every row that is read has to say as well. Else the
	//     value is a subquery of two rows, which is an error in any sql_mode, while a NULL is
	//     one in a strict mode alone.
	//   - if all rows are there. They are counted with their locks, in the order of the
	//     key, so nobody removes one meanwhile, and nothing is ever inserted. COUNT(ver) asks
	//     for what only the rows themselves have: for COUNT(*) a server reads all of a small
	//     index, and locks what it reads. The count is in a table of its own since MySQL lets
	//     a statement read the table that it writes in no other way.
	//   - if each has the version that was read. Else ver would be NULL, which it cannot.
	//     A row with version 0 is there for a number of rows that is a power of two, and
	//     changes nothing: it repeats what another row of the statement sets.
	// ver is assigned once, and no other assignment looks at it, so that their order is of
	// no matter. With READ COMMITTED a server logs rows, not statements: no replica ever
	// asks itself where it is.
	q.write1 = "INSERT INTO " + state + " (ver, k, epoch, now_us, news_us, idle_us, state) VALUES (IF(" + q.where + " = ?," +
		" IF((SELECT n FROM (SELECT COUNT(ver) AS n FROM " + state + " FORCE INDEX (PRIMARY) WHERE k IN (?"
	q.write2 = ") FOR UPDATE) AS there) = ?, CAST(? AS UNSIGNED), NULL), (SELECT 1 UNION ALL SELECT 2)), ?, ?, ?, ?, ?, ?)"
	q.writeN = ", (?, ?, ?, ?, ?, ?, ?)"
	// News have the time at which they can be seen, not that of the decision, since
	// somebody may have been stopped in between.
	q.writeEnd = " ON DUPLICATE KEY UPDATE ver = IF(VALUES(ver) = 0, ver, IF(ver + 1 = VALUES(ver), VALUES(ver), NULL)), epoch = VALUES(epoch)," +
		" now_us = VALUES(now_us), news_us = IF(VALUES(news_us) = 0, news_us, GREATEST(news_us + 1, VALUES(news_us), " + utc + "))," +
		" idle_us = VALUES(idle_us), state = IF(VALUES(ver) = 0, state, VALUES(state))"
	return q
}

// read is the statement that reads n rows.
func (q *queries) read(n int) string {
	return q.read1 + strings.Repeat(q.readN, n-1) + ") ORDER BY k"
}

// lock is the one that locks them first.
func (q *queries) lock(n int) string { return q.read(n) + " FOR UPDATE" }

// seed is the one that makes n rows.
func (q *queries) seed(n int) string { return q.seed1 + strings.Repeat(q.seedN, n-1) }

// write is the one that writes n.
func (q *queries) write(n int) string {
	return q.write1 + strings.Repeat(q.readN, n-1) + q.write2 + strings.Repeat(q.writeN, n-1) + q.writeEnd
}

// padded is for how many rows the statement for n of them is: powers of two, so that
// there are few statements.
func padded(n int) int { return 1 << bits.Len(uint(n-1)) }

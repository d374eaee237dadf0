package mysqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrSchema is matched by errors of Open that say that the tables are not those of
// this version.
var ErrSchema = errors.New("mysqlstore: tables are not as they have to be")

// migrations are all that was ever done to the tables, in order; % is the prefix.
// What has been released is not changed any more, only added to, so that processes of
// two versions can use the same tables. Each statement may be executed again.
var migrations = [][]string{{
	"CREATE TABLE IF NOT EXISTS %state (" +
		" k VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY," +
		" epoch VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL," +
		" ver BIGINT UNSIGNED NOT NULL," +
		" now_us BIGINT NOT NULL," +
		" news_us BIGINT NOT NULL," +
		" idle_us BIGINT NOT NULL," +
		" state MEDIUMBLOB NOT NULL," +
		" KEY news (news_us), KEY idle (idle_us)) ENGINE=InnoDB",
	"INSERT IGNORE INTO %state (k, epoch, ver, now_us, news_us, idle_us, state) VALUES ('', ?, 0, 0, 0, 0, ?)",
	"CREATE TABLE IF NOT EXISTS %meta (" +
		" k VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY," +
		" meta JSON NOT NULL," +
		" ver BIGINT UNSIGNED NOT NULL DEFAULT 1) ENGINE=InnoDB",
	"CREATE TABLE IF NOT EXISTS %seq (id INT NOT NULL PRIMARY KEY, ver BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB",
	"INSERT IGNORE INTO %seq (id, ver) VALUES (1, 1)",
}}

// Migrate makes the tables whose names begin with prefix ("" as in Config), or brings
// them up to date, in the database that db's connections are in. It may be called
// again, and by several processes at once: one waits for the other, up to 10 s. It
// needs the rights CREATE, INSERT and SELECT (later perhaps ALTER and INDEX), which
// Open does not.
func Migrate(ctx context.Context, db *sql.DB, prefix string) (err error) {
	if prefix == "" {
		prefix = "gov_"
	}
	if err := checkPrefix(prefix); err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("mysqlstore: Migrate: %w", err)
	}
	defer conn.Close()
	// The lock is of the server, not of the database.
	var database sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return fmt.Errorf("mysqlstore: Migrate: %w", err)
	}
	if !database.Valid {
		return errors.New("mysqlstore: Migrate: the connection is in no database")
	}
	sum := sha256.Sum256([]byte(database.String))
	lock := prefix + "schema." + hex.EncodeToString(sum[:8])
	var got sql.NullInt64
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 10)", lock).Scan(&got); err != nil || got.Int64 != 1 {
		return fmt.Errorf("mysqlstore: Migrate: another one is under way (GET_LOCK: %d, %w)", got.Int64, err)
	}
	defer func() {
		// A connection that is lost loses its lock as well.
		_, e := conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK(?)", lock)
		err = errors.Join(err, e)
	}()
	return migrate(ctx, conn, prefix)
}

// migrate does what has not been done yet. The caller has the lock.
func migrate(ctx context.Context, conn *sql.Conn, prefix string) error {
	if _, err := conn.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS "+prefix+"schema ("+
		" version INT NOT NULL PRIMARY KEY, checksum CHAR(64) NOT NULL, applied_us BIGINT NOT NULL) ENGINE=InnoDB"); err != nil {
		return fmt.Errorf("mysqlstore: Migrate: %w", err)
	}
	have, err := version(ctx, conn, prefix)
	if err != nil {
		return fmt.Errorf("mysqlstore: Migrate: %w", err)
	}
	at, _, err := look(ctx, conn)
	if err != nil {
		return fmt.Errorf("mysqlstore: Migrate: %w", err)
	}
	epoch, fence, err := newFence(at)
	if err != nil {
		return fmt.Errorf("mysqlstore: Migrate: %w", err)
	}
	for i, statements := range migrations {
		if i+1 <= have {
			continue
		}
		for _, q := range statements {
			args := []any{}
			if strings.Contains(q, "?") { // that of the fence
				args = append(args, epoch, fence)
			}
			if _, err := conn.ExecContext(ctx, strings.ReplaceAll(q, "%", prefix), args...); err != nil {
				return fmt.Errorf("mysqlstore: Migrate to version %d: %w", i+1, err)
			}
		}
		if _, err := conn.ExecContext(ctx, "INSERT INTO "+prefix+"schema (version, checksum, applied_us) VALUES (?, ?, "+utc+")", i+1, checksum(i)); err != nil {
			return fmt.Errorf("mysqlstore: Migrate to version %d: %w", i+1, err)
		}
		if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil { // for a connection without autocommit
			return fmt.Errorf("mysqlstore: Migrate to version %d: %w", i+1, err)
		}
	}
	return nil
}

func checksum(i int) string {
	sum := sha256.Sum256([]byte(strings.Join(migrations[i], ";")))
	return hex.EncodeToString(sum[:])
}

// querier is a sql.DB or a sql.Conn.
type querier interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
}

// version is that of the tables, after a check that they became so by our
// migrations.
func version(ctx context.Context, db querier, prefix string) (have int, err error) {
	rows, err := db.QueryContext(ctx, "SELECT version, checksum FROM "+prefix+"schema ORDER BY version")
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var v int
		var sum string
		if err := rows.Scan(&v, &sum); err != nil {
			return 0, err
		}
		if v <= len(migrations) && (v < 1 || sum != checksum(v-1)) {
			return 0, fmt.Errorf("%w: %sschema has another version %d than this module", ErrSchema, prefix, v)
		}
		have = v
	}
	return have, rows.Err()
}

// checkSchema returns an error that matches ErrSchema when the tables are older than
// this module. Newer ones only have more.
func checkSchema(ctx context.Context, db *sql.DB, prefix string) error {
	have, err := version(ctx, db, prefix)
	switch {
	case is(err, errNoTable):
		return fmt.Errorf("%w: there is no table %sschema; call mysqlstore.Migrate, or set Config.AutoMigrate", ErrSchema, prefix)
	case err != nil:
		return fmt.Errorf("mysqlstore: %w", err)
	case have < len(migrations):
		return fmt.Errorf("%w: they are of version %d, want %d; call mysqlstore.Migrate, or set Config.AutoMigrate", ErrSchema, have, len(migrations))
	}
	for _, table := range []string{"state", "meta", "seq"} {
		var engine sql.NullString
		err := db.QueryRowContext(ctx, "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = ?", prefix+table).Scan(&engine)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%w: table %s%s is gone, though version %d has it", ErrSchema, prefix, table, have)
		}
		if err != nil {
			return fmt.Errorf("mysqlstore: %w", err)
		}
		if engine.String != "InnoDB" {
			return fmt.Errorf("%w: table %s%s is of engine %.20q, which has no transactions; want InnoDB", ErrSchema, prefix, table, engine.String)
		}
	}
	return nil
}

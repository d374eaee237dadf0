package mysqlstore

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Config says where the tables are. Either DSN or DB is required.
type Config struct {
	// DSN names user, address and database as go-sql-driver/mysql has them:
	// "user:password@tcp(host:3306)/database?tls=true".
	DSN string

	// DB is a pool to take connections from instead, of a DSN with neither
	// multiStatements nor interpolateParams. The Store keeps up to Sessions of them
	// for itself, with settings of its own, and closes them in the end; it does not
	// close DB. Whether they are encrypted is up to who made it.
	DB *sql.DB

	// TLS is used with DSN instead of its parameter tls. The server's name is that
	// of the address, if it has none.
	TLS *tls.Config

	// Password is asked for the password of each new connection of DSN, for one
	// that changes. nil: that of DSN.
	Password func(context.Context) (string, error)

	// AllowInsecure allows a DSN without TLS, or without a check of the server's
	// certificate, to another machine than this one.
	AllowInsecure bool

	// Prefix is what the names of the tables begin with: 1 to 16 of [a-z_]. ""
	// means "gov_". Stores of different prefixes share nothing.
	Prefix string

	// TTL is how long a silent node keeps its slots and its probe: 1 s up to 1 h,
	// the same in all processes. 0 means 10 s.
	TTL time.Duration

	// Poll is how often news of other processes are asked for: 10 ms up to 10 s. 0
	// means 250 ms.
	Poll time.Duration

	// Sessions is how many connections there are at most: 1 up to 64. 0 means 4. A
	// DB that has fewer (SetMaxOpenConns) gives fewer.
	Sessions int

	// MaxKeys bounds the keys that are not idle, by a count that is up to a minute
	// old, MaxNodes the nodes under one. What needs one more is refused with
	// store.ErrTooMany. 0 means 100,000 and 1024.
	MaxKeys, MaxNodes int

	// AutoMigrate has Open bring the tables up to date, as Migrate does.
	AutoMigrate bool
}

// String is c without its password.
func (c Config) String() string {
	where := "database/sql"
	if c.DSN != "" {
		where = redacted(c.DSN)
	}
	return fmt.Sprintf("mysqlstore{%s, prefix %q}", where, c.Prefix)
}

// GoString is String.
func (c Config) GoString() string { return c.String() }

// redacted is the DSN without what may be secret: its user's password and its
// parameters.
func redacted(dsn string) string {
	p, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "a DSN that is none"
	}
	return fmt.Sprintf("%s@%s(%s)/%s", p.User, p.Net, p.Addr, p.DBName)
}

func (c *Config) fill() error {
	if c.Prefix == "" {
		c.Prefix = "gov_"
	}
	for _, d := range []struct {
		v   *int
		def int
	}{{&c.Sessions, 4}, {&c.MaxKeys, 100_000}, {&c.MaxNodes, 1024}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if c.TTL == 0 {
		c.TTL = 10 * time.Second
	}
	if c.Poll == 0 {
		c.Poll = 250 * time.Millisecond
	}
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("mysqlstore: Config.%s is %v, want %s", field, value, want)
	}
	switch {
	case (c.DSN == "") == (c.DB == nil):
		return errors.New("mysqlstore: Config has DSN and DB, or neither; want one of them")
	case c.DB != nil && (c.TLS != nil || c.Password != nil):
		return errors.New("mysqlstore: Config has DB, and TLS or Password, which are for DSN")
	case c.TTL < time.Second || c.TTL > time.Hour:
		return bad("TTL", c.TTL, "1s up to 1h")
	case c.Poll < 10*time.Millisecond || c.Poll > 10*time.Second:
		return bad("Poll", c.Poll, "10ms up to 10s")
	case c.Sessions < 1 || c.Sessions > 64:
		return bad("Sessions", c.Sessions, "1 up to 64")
	case c.MaxKeys < 1:
		return bad("MaxKeys", c.MaxKeys, "1 or more")
	case c.MaxNodes < 1 || c.MaxNodes > 1024:
		return bad("MaxNodes", c.MaxNodes, "1 up to 1024")
	}
	return checkPrefix(c.Prefix)
}

var prefixes = regexp.MustCompile(`^[a-z_]{1,16}$`)

// checkPrefix is what makes it safe to write the names of tables into statements.
func checkPrefix(p string) error {
	if !prefixes.MatchString(p) {
		return fmt.Errorf("mysqlstore: the prefix of the tables is %.40q, want 1 to 16 of [a-z_]", p)
	}
	return nil
}

// open returns the pool of DSN.
func (c *Config) open() (*sql.DB, error) {
	p, err := mysql.ParseDSN(c.DSN)
	if err != nil {
		// What the driver says of it may have parts of the password.
		return nil, errors.New("mysqlstore: Config.DSN is none, want user:password@tcp(host:port)/database")
	}
	switch {
	case p.DBName == "":
		return nil, errors.New("mysqlstore: Config.DSN names no database")
	case p.MultiStatements:
		return nil, errors.New("mysqlstore: Config.DSN has multiStatements, which nothing here needs")
	case p.AllowAllFiles:
		return nil, errors.New("mysqlstore: Config.DSN has allowAllFiles, by which a server could read files of this machine")
	}
	if c.TLS != nil {
		p.TLS, p.AllowFallbackToPlaintext = c.TLS.Clone(), false
	}
	if !c.AllowInsecure && !local(p) && (p.TLS == nil || p.TLS.InsecureSkipVerify || p.AllowFallbackToPlaintext) {
		return nil, fmt.Errorf("mysqlstore: %s is another machine, and the connection would be without TLS or without a check of its certificate; want tls=true, Config.TLS or Config.AllowInsecure", p.Addr)
	}
	p.InterpolateParams = false
	p.Logger = &mysql.NopLogger{} // what it would print comes as errors, too
	if c.Password != nil {
		ask := c.Password
		if err := p.Apply(mysql.BeforeConnect(func(ctx context.Context, p *mysql.Config) error {
			secret, err := ask(ctx)
			p.Passwd = secret
			return err
		})); err != nil {
			return nil, fmt.Errorf("mysqlstore: %w", err)
		}
	}
	connector, err := mysql.NewConnector(p)
	if err != nil {
		return nil, errors.New("mysqlstore: Config.DSN has options that do not go together")
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(c.Sessions)
	return db, nil
}

// local reports whether what is said to p's address stays on this machine.
func local(p *mysql.Config) bool {
	if p.Net == "unix" {
		return true
	}
	host, _, err := net.SplitHostPort(p.Addr)
	ip := net.ParseIP(host)
	return p.Net == "tcp" && err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

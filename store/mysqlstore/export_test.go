package mysqlstore

import "context"

// Sweep is what the poller does about once a minute.
func (s *Store) Sweep(ctx context.Context) { s.sweep(ctx) }

// Migrations is how many there are.
var Migrations = len(migrations)

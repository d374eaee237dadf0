package redisstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flyball-go/flyball/store"
	"github.com/redis/go-redis/v9"
)

// Meta reads and changes metadata, all of which is under one key, and on one node of
// a Cluster.
func (s *Store) Meta(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
	if err := store.CheckMeta(op); err != nil {
		return nil, err
	}
	if op.Version > 1<<52 && (op.Do == store.Put || op.Do == store.Delete) {
		return nil, fmt.Errorf("%w: %s never had version %d", store.ErrConflict, op.Key, op.Version)
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.work.Done()
	switch op.Do {
	case store.Get:
		text, err := s.client.HGet(ctx, metaValues, op.Key).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		if err != nil {
			return nil, s.failure(err)
		}
		r, err := record(op.Key, text)
		if err != nil {
			return nil, err
		}
		return []store.Record{r}, nil
	case store.List:
		return s.list(ctx, op)
	}
	do := "put"
	if op.Do == store.Delete {
		do = "delete"
	}
	cmds := []*redis.StringCmd{redis.NewStringCmd(ctx, "evalsha", metaScript.sha, "2", metaValues, metaKeys,
		do, op.Key, strconv.FormatUint(op.Version, 10), string(op.Value))}
	s.eval(ctx, metaScript, cmds)
	text, err := cmds[0].Result()
	if err != nil {
		return nil, s.failure(err)
	}
	version, err := strconv.ParseUint(text, 10, 53)
	switch {
	case err != nil:
		return nil, errStrange
	case version == 0:
		return nil, fmt.Errorf("%w: %s has not version %d", store.ErrConflict, op.Key, op.Version)
	case op.Do == store.Delete:
		return nil, nil
	}
	return []store.Record{{Key: op.Key, Value: append(json.RawMessage(nil), op.Value...), Version: version}}, nil
}

// list asks twice: for the keys, and for what they have. A record that is deleted in
// between is left out.
func (s *Store) list(ctx context.Context, op store.MetaOp) ([]store.Record, error) {
	most := op.Limit
	if most == 0 {
		most = 100
	}
	r := &redis.ZRangeBy{Min: "-", Max: "+", Count: int64(most)}
	if op.Key != "" {
		r.Min, r.Max = "["+op.Key, "("+op.Key+"~" // after all that keys are made of
	}
	keys, err := s.client.ZRangeByLex(ctx, metaKeys, r).Result()
	if err != nil {
		return nil, s.failure(err)
	}
	if len(keys) == 0 {
		return nil, nil
	}
	values, err := s.client.HMGet(ctx, metaValues, keys...).Result()
	if err != nil {
		return nil, s.failure(err)
	}
	var found []store.Record
	for i, v := range values {
		text, ok := v.(string)
		if !ok || i >= len(keys) {
			continue
		}
		r, err := record(keys[i], text)
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}

// record reads a version and a value.
func record(key, text string) (store.Record, error) {
	v, value, ok := strings.Cut(text, " ")
	version, err := strconv.ParseUint(v, 10, 53)
	if !ok || err != nil || store.CheckKey(key) != nil || !json.Valid([]byte(value)) {
		return store.Record{}, fmt.Errorf("%w: redisstore: garbage in the metadata of %.40q", store.ErrInvalid, key)
	}
	return store.Record{Key: key, Value: json.RawMessage(value), Version: version}, nil
}

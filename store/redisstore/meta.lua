-- Metadata: compare and set.
--
-- KEYS: 1 a hash of values, each with its version before it, 2 the sorted set of
-- their keys.
-- ARGV: 1 put or delete, 2 key, 3 the version that is to be there, 4 the value.
-- Answers the new version, 0 when another one is there.

local old = redis.call('HGET', KEYS[1], ARGV[2])
local version = 0
if old then
	local v = string.match(old, '^(%d+) ')
	if not v or #v > 16 then return redis.error_reply('GARBAGE in the metadata') end
	version = tonumber(v)
end
if version ~= tonumber(ARGV[3]) then return '0' end
if ARGV[1] == 'delete' then
	redis.call('HDEL', KEYS[1], ARGV[2])
	redis.call('ZREM', KEYS[2], ARGV[2])
	return '1'
end
-- By the clock, so that what was deleted does not begin anew.
local clock = redis.call('TIME')
version = math.max(version + 1, clock[1] * 1000000 + clock[2])
local text = string.format('%.0f', version)
redis.call('HSET', KEYS[1], ARGV[2], text .. ' ' .. ARGV[4])
redis.call('ZADD', KEYS[2], 0, ARGV[2])
return text

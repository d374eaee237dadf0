-- What Store.AssumeUnused says about the slots of KEYS, which are witnesses: see
-- exchange/state.lua.

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
local info = redis.call('INFO', 'replication')
local _, i = string.find(info, 'master_replid:', 1, true)
if not i then return redis.error_reply('NOFENCE the server does not tell its master_replid') end
local server = string.sub(info, i + 1, i + 40)
local evicted = string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)') or '0'
for _, key in ipairs(KEYS) do
	if redis.call('HGET', key, 'f') ~= server then
		redis.call('HSET', key, 'f', server, 'b', now)
	end
	redis.call('HSET', key, 'l', '0', 'e', evicted)
end
return 'OK'

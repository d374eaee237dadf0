-- What Store.AssumeUnused says about the slots of KEYS, which are witnesses: see
-- exchange.lua.

local clock = redis.call('TIME')
local now = string.format('%.0f', clock[1] * 1000000 + clock[2])
local info = redis.call('INFO', 'server', 'replication')
local _, i = string.find(info, 'run_id:', 1, true)
local _, j = string.find(info, 'master_replid:', i, true)
if not (i and j) then return redis.error_reply('NOFENCE the server does not tell its run_id') end
local server = string.sub(info, i + 1, i + 40) .. string.sub(info, j + 1, j + 40)
local evicted = string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)') or '0'
for _, key in ipairs(KEYS) do
	if redis.call('HGET', key, 'f') ~= server then
		redis.call('HSET', key, 'f', server, 'b', now)
	end
	redis.call('HSET', key, 'l', '0', 'e', evicted)
end
return 'OK'

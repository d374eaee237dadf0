-- What is there now.

for i, c in ipairs(limits) do
	put('l' .. i, pack('<' .. string.rep('I8', #c), unpack(c)))
end
for s in pairs(changedcools) do
	local c = cools[s]
	if c then put('c:' .. s, pack('<I8I8', c.till, c.gen)) else drop('c:' .. s) end
end
if fresh then
	for s, c in pairs(cools) do
		if not changedcools[s] then put('c:' .. s, pack('<I8I8', c.till, c.gen)) end
	end
end
if bye then
	tell = tell or n[HELD] > 0 or prober == me
	if prober == me then prober, probeends = '', 0 end
	drop('n:' .. me)
	nodes[me], count = nil, count - 1
else
	n[11], n[12], n[13], n[14], n[15], n[16], n[17] = answer.granted, answer.valid, answer.again,
		answer.held, answer.slots, answer.probe, answer.probeends
	put('n:' .. me, pack(NODEFORMAT, unpack(n, 1, NODE)) .. seq)
end
for name, o in pairs(nodes) do
	if o.changed then
		local v = call('HGET', KEYS[1], 'n:' .. name)
		put('n:' .. name, pack(SEENFORMAT, unpack(o, 1, SEEN)) .. sub(v, SEEN * 8 + 1))
	end
end
if probing then
	local p = str(probeends) .. ' ' .. prober
	if p ~= h.p then put('p', p) end
elseif h.p then
	drop('p')
end

local keep, due = 86400000000, TOP -- a day
for _, c in ipairs(limits) do
	keep = max(keep, 10 * ceil(c[PER] / 1000))
	if c[KIND] == BUCKET then keep = max(keep, ceil(ahead(c) / 1000)) end
	if c[RAISE] ~= 0 then due = min(due, c[RAISE]) end
end
for _, c in pairs(cools) do
	keep = max(keep, c.till - now + REMEMBER)
	due = min(due, c.till + REMEMBER)
end
keep = max(keep, lost - now + REMEMBER)
due = min(due, now + floor(keep / 16)) -- it is to live that long again

local whole = cools['']
local paused = (probing or whole and whole.till > now) and 1 or 0
local round, slotted, wanting, getting, sum = 0, 0, 0, 0, 0
if limits[1] then round = floor(now / ceil(limits[1][PER] / 1000)) end
for _, o in pairs(nodes) do
	due = min(due, o[EXPIRES])
	if o[SLOTS] > 0 or o[HELD] > 0 or o[WANTSLOTS] > 0 then slotted = slotted + 1 end
	local got = o[ROUND] == round and o[GOT] or 0
	sum = sum + got
	if o[WANTS] > 0 then
		wanting = wanting + 1
	elseif got > 0 then
		getting = getting + 1
	end
end
put('m', pack(MEMBERSFORMAT, LAYOUT, now, due, count, slotted, paused, gen, round, wanting, getting, sum))

if renew then
	call('HSET', KEYS[2], 'f', witness.f, 'b', str(witness.b), 'l', str(witness.l), 'e', witness.e)
end
if #del > 0 then call('HDEL', KEYS[1], unpack(del)) end
call('HSET', KEYS[1], unpack(set))
call('PEXPIRE', KEYS[1], str(ceil(keep / 1000)))
if tell then redis.pcall('PUBLISH', KEYS[1], '') end
return reply

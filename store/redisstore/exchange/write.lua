-- What is there now.

local a, used, u = 0, 0, 0
for i, c in ipairs(limits) do
	if i == 1 then -- what is taken is in m
		a, used = c[STEP], c[USED]
		if c[KIND] == SLIDING then
			local s = slot(c, a)
			used, u, c[s] = taken(c), c[s], 0
		end
	end
	local l = pack('<' .. string.rep('I8', #c), unpack(c))
	if i == 1 then l = sub(l, 1, 8 * CONSTANTS) .. sub(l, 8 * (c[KIND] == SLIDING and STEP or USED) + 1) end
	put('l' .. i, l)
end
if #limits == 1 then
	local c = limits[1]
	local b = 'master_replid:' .. server ..
		pack('<I8I8I8I8I8', c[KIND], c[QUOTA], ceil(c[PER] / 1000), step(c), ceil(c[TRANSIT] / 1000)) ..
		(c[KIND] == BUCKET and pack('<I8I8I8I8', c[PER], c[BURST], c[LEASE], c[TRANSIT]) or '') ..
		epoch .. ' ' .. string.match(version, '^0*(%d+)$') .. ' ' .. asked
	if b ~= h.b then put('b', b) end
elseif h.b then
	drop('b')
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
	drop(node)
	count = count - 1
else
	n[11], n[12], n[13], n[14], n[15], n[16], n[17] = answer.granted, answer.valid, answer.again,
		answer.held, answer.slots, answer.probe, answer.probeends
	local more = n[TOLD] + n[SLOTS] + n[HELD] + n[WANTSLOTS]
	for i = 13, NODE do more = more + n[i] end
	if more == 0 and seq <= digits(TOP) then
		put(node, pack(BRIEFFORMAT, n[1], n[2], n[3], n[4], n[5], n[6], tonumber(seq), n[11], n[12]))
	else
		put(node, pack(NODEFORMAT, unpack(n, 1, NODE)) .. seq)
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
if probing or whole and whole.till > now then due = 0 end
local round = limits[1] and floor(now / ceil(limits[1][PER] / 1000)) or 0
local wanting, getting, sum = asking, gets[round] or 0, gots[round] or 0
if not bye then
	due = min(due, n[EXPIRES])
	if n[SLOTS] > 0 or n[HELD] > 0 or n[WANTSLOTS] > 0 then slotted = true end
	local got = n[ROUND] == round and n[GOT] or 0
	sum = sum + got
	if n[WANTS] > 0 then
		wanting = wanting + 1
	elseif got > 0 then
		getting = getting + 1
	end
end
due = slotted and 0 or min(due, earliest)
put('m', pack(MEMBERSFORMAT, now, due, count, gen, round, wanting, getting, sum, a, used, u))

if renew then
	call('HSET', KEYS[2], 'f', witness.f, 'b', str(witness.b), 'l', str(witness.l), 'e', witness.e)
end
if #del > 0 then call('HDEL', KEYS[1], unpack(del)) end
call('HSET', KEYS[1], unpack(set))
call('PEXPIRE', KEYS[1], str(ceil(keep / 1000)))
if tell then redis.pcall('PUBLISH', KEYS[1], '') end
return reply

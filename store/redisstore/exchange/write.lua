-- What is there now.

local function keep(name, v)
	if v ~= h[name] then
		if v then put(name, v) else drop(name) end
	end
end

local a, used, u = 0, 0, 0
for i = 2, #limits do put('l' .. i, pack('<' .. string.rep('I8', #limits[i]), unpack(limits[i]))) end
do
	local c, b, l, t = limits[1]
	if c then
		a, used = c[STEP], c[USED]
		if c[KIND] == SLIDING then
			local s = slot(c, a)
			used, u, c[s] = taken(c), c[s], 0
			if h.t or used > u then t = pack(STEPSFORMAT, unpack(c, USED, SLIDINGLIMIT)) end
		end
		l = pack('<' .. string.rep('I8', CONSTANTS), unpack(c, 1, CONSTANTS))
	end
	if #limits == 1 then
		b = believed(c, fence, version, asked)
		if l == pack('<' .. string.rep('I8', CONSTANTS), unpack(constants(asked))) then l = nil end
	end
	keep('b', b)
	keep('l1', l)
	keep('t', t)
	keep('f', not b and fence or nil)
	keep('lv', c and not b and version or nil)
	keep('la', c and not b and asked or nil)
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
	local more = n[TOLD] + n[SLOTS] + n[HELD] + n[WANTSLOTS] + leastslots
	for i = 13, NODE do more = more + n[i] end
	if more == 0 and seq <= digits(TOP) then
		put(node, pack(BRIEFFORMAT, n[1], n[2], n[3], n[4], n[5], n[6], tonumber(seq), n[11], n[12]))
	else
		local waiting = leastslots + n.line > 0 and pack('<I8I8I8', leastslots, n.line, n.turn) or ''
		put(node, pack(NODEFORMAT, unpack(n, 1, NODE)) .. seq .. waiting)
	end
end
if probing then
	keep('p', str(probeends) .. ' ' .. prober)
else
	keep('p', nil)
end

local lives, due = 86400000000, TOP -- a day
for _, c in ipairs(limits) do
	lives = max(lives, max(0, lost - now) + 10 * ceil(c[PER] / 1000))
	if c[KIND] == BUCKET then lives = max(lives, ceil(ahead(c) / 1000)) end
	if c[RAISE] ~= 0 then due = min(due, c[RAISE]) end
	if c[RAISE] ~= 0 and c[NEXT + 2] < c[LEASE] then due = 0 end -- leases are shorter than b has them
end
for _, c in pairs(cools) do
	lives = max(lives, c.till - now + REMEMBER)
	due = min(due, c.till + REMEMBER)
end
lives = max(lives, lost - now + REMEMBER)
due = min(due, now + floor(lives / 16)) -- it is to live that long again

local whole = cools['']
if probing or whole and whole.till > now or keeping > 0 or n[WANTS] >= TURNS then due = 0 end
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
call('PEXPIRE', KEYS[1], str(ceil(lives / 1000)))
if tell then redis.pcall('PUBLISH', KEYS[1], '') end
if answer.said then -- that alone needs no asking
	redis.pcall('PUBLISH', KEYS[1], epoch .. cooldowns(function(s, c) return changedcools[s] and c.till > now end))
end
return reply

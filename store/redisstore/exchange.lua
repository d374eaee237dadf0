-- One item of one node about one key: what store.Store says of an item, and
-- store.Memory does.
--
-- KEYS: 1 the hash of the key, 2 the witness of its slot.
-- ARGV: 1 words, separated by spaces: node, seq (20 digits), ttl, split-brain bound, most
-- nodes, want, least, returned, debt, seen, probe, slots, held, slots wanted, bye, then
-- how many cooldowns are said, known and cleared; version (20 digits), and epoch or -.
-- 2 the limits as asked, 3 filled in. Then of each cooldown that is said its scope and
-- length, of each that is known its scope, length and generation, of each that is
-- cleared its scope.
--
-- Times are microseconds by the server's clock, lengths of a limit nanoseconds. All
-- are integers below 2^53, which a double holds exactly. Nothing is written before
-- all that is there has been read: an error leaves everything as it was.

local LAYOUT = 1
local TOP = 9007199254740991 -- 2^53-1
local MOST = '18446744073709551615' -- 2^64-1, for texts of 20 digits
local CAP = 8900000000000000 -- ns, 103 days: more than any Per, Lease and Transit together
local MAXCOOL = 2678400000000 -- store.MaxCool
local MAXSCOPES = 64 -- store.MaxScopes
local REMEMBER = 60000000 -- how long a cooldown that was cleared is told
local MOMENT = 5000 -- how late a node may come that was told when to come again
local BACK = 3600000000 -- a clock that goes back further has been wrong
local SEGMENTS = 32
local SLIDING, BUCKET, WINDOW = 0, 1, 2
local COOLING, OPEN, YOURS, OTHER = 1, 2, 3, 4
local WANTED, PASSED = 1, 2

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local call, pack, unpackd = redis.call, struct.pack, struct.unpack

local function garbage(what) error({err = 'GARBAGE in the field ' .. what}) end

local function str(n) return string.format('%.0f', n) end

local function int(s, what)
	local n = #s <= 16 and string.find(s, '^%d+$') and tonumber(s)
	if not n or n > TOP then garbage(what) end
	return n
end

-- whole checks numbers that were packed.
local function whole(r, n, what)
	for i = 1, n do
		local x = r[i]
		if not (x >= 0 and x <= TOP) or x ~= floor(x) then garbage(what) end
	end
	return r
end

local words = {string.match(ARGV[1], '^(%S+) (%S+)' .. string.rep(' (%d+)', 16) .. ' (%S+) (%S+)$')}
local arg = {}
for i = 3, 18 do arg[i] = tonumber(words[i]) end
local me, seq, newversion, theirepoch = words[1], words[2], words[19], words[20]
local ttl, bound, mostnodes, want, least, returned, debt, seen = arg[3], arg[4], arg[5], arg[6],
	max(1, arg[7]), arg[8], arg[9], arg[10]
local word, slots, held, wantslots, bye = arg[11], arg[12], arg[13], arg[14], arg[15] == 1
local newasked, newlimits = ARGV[2], ARGV[3]

-- What is there.

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local info = call('INFO', 'server', 'replication')
-- plain finds, since a pattern takes longer than all the rest
local _, i = string.find(info, 'run_id:', 1, true)
local _, j = string.find(info, 'master_replid:', i, true)
if not (i and j) then return redis.error_reply('NOFENCE the server does not tell its run_id') end
local run, repl = string.sub(info, i + 1, i + 40), string.sub(info, j + 1, j + 40)
local server = run .. repl

local raw = call('HGETALL', KEYS[1])
local w = call('HMGET', KEYS[2], 'f', 'b', 'l', 'e')
local witness = {f = w[1], e = w[4]}
if w[1] then
	if not (w[2] and w[3] and w[4]) then garbage('of the witness') end
	witness.b, witness.l = int(w[2], 'b of the witness'), int(w[3], 'l of the witness')
end

local h, nodes, cools, count, kept = {}, {}, {}, 0, 0
for i = 1, #raw, 2 do
	local name, v = raw[i], raw[i + 1]
	local kind = string.sub(name, 1, 2)
	if kind == 'n:' then
		nodes[string.sub(name, 3)] = v
		count = count + 1
	elseif kind == 'c:' then
		if #v ~= 16 or #name > 258 or kept >= MAXSCOPES then garbage('c:') end
		local c = whole({unpackd('<dd', v)}, 2, 'c:')
		cools[string.sub(name, 3)] = {till = c[1], gen = c[2]}
		kept = kept + 1
	else
		h[name] = v
	end
end
if h.v and int(h.v, 'v') > LAYOUT then
	return redis.error_reply('LAYOUT the hash has layout ' .. h.v .. ', written by a newer version of the library')
end

-- Lost state: what the witness has not seen all along is not believed. It says
-- which server it is of, when what that server has began, and until when a key that
-- is absent may have been in use.

local set, del = {}, {} -- what changes of the hash
local function put(name, v) set[#set + 1] = name; set[#set + 1] = v end
local function drop(name) del[#del + 1] = name end

local renew = witness.f ~= server
local evicted
if renew or #raw == 0 then
	evicted = string.match(call('INFO', 'stats'), 'evicted_keys:(%d+)') or '0'
end
if renew then
	witness = {f = server, b = now, l = now + bound, e = evicted}
elseif #raw == 0 and witness.e ~= evicted then -- it may be one of those
	witness.l, witness.e, renew = now + bound, evicted, true
end
local fence = server .. '-' .. str(witness.b)

local last = h.t and int(h.t, 't') or 0
local back = last > now + BACK and last - now or 0
local fresh = h.f ~= fence or back > 0 or not h.v or int(h.v, 'v') < LAYOUT
local born = h.b and int(h.b, 'b') or now
local lost = h.l and int(h.l, 'l') or 0
local from = h.s and int(h.s, 's') or 0 -- before, slots are not handed out
local gen = h.g and int(h.g, 'g') or 0
local probing, prober, probeends = false, '', 0
if h.p then
	local ends, name = string.match(h.p, '^(%d+) (%w*)$')
	if not ends then garbage('p') end
	probing, prober, probeends = true, name, int(ends, 'p')
end
now = max(now, last - back)
if fresh then
	born = now
	lost = witness.l
	if h.f == fence then lost = now + bound end -- the clock, or the layout
	from = lost + ttl
	prober, probeends = '', 0
	for name in pairs(nodes) do drop('n:' .. name) end
	nodes, count = {}, 0
	for _, c in pairs(cools) do c.till = max(0, c.till - back) end
	put('v', LAYOUT)
	put('f', fence)
	put('b', str(born))
	put('l', str(lost))
	put('s', str(from))
end
local epoch = string.sub(run, 1, 16) .. '-' .. str(witness.b)
if lost > witness.b + bound then epoch = epoch .. '-' .. str(born) end

-- Nodes: expires, wanted, got, round of got, open, granted at, told to come at, slots,
-- held, slots wanted, and then the answer to seq: granted, usable until, come again
-- at, held, slots until, probe, its end.

local NODE, SEEN = 17, 10
local NODEFORMAT, SEENFORMAT = '<' .. string.rep('d', NODE), '<' .. string.rep('d', SEEN)
local EXPIRES, WANTS, GOT, ROUND, HAS, AT, TOLD, SLOTS, HELD, WANTSLOTS = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10

local n
for name, v in pairs(nodes) do
	if #v < NODE * 8 + 20 then garbage('n:' .. name) end
	local r
	if name == me then
		r = whole({unpackd(NODEFORMAT, v)}, NODE, 'n:')
	else
		r = whole({unpackd(SEENFORMAT, v)}, SEEN, 'n:')
	end
	if r[EXPIRES] <= now then
		drop('n:' .. name)
		nodes[name] = nil
		count = count - 1
		if prober == name then prober, probeends = '', 0 end
	else
		nodes[name] = r
		if name == me then
			n, r.seq = r, string.sub(v, NODE * 8 + 1, NODE * 8 + 20)
			if not string.find(r.seq, '^%d+$') or r.seq > MOST or r[11] > 1000000000 or r[12] > now + MAXCOOL or r[13] > now + 10 * MAXCOOL or
				r[14] > 1048576 or r[15] > now + 2 * BACK or r[16] > OTHER or r[17] > now + MAXCOOL then
				garbage('n:')
			end
		end
	end
end
if prober ~= '' and not nodes[prober] then prober, probeends = '', 0 end
if not n and count >= mostnodes or count > mostnodes then return redis.error_reply('TOOMANY nodes under the key') end

-- Limits: kind, quota, per, burst, lease, transit, then the raised quota, burst, lease
-- and transit with the time from which they count, then what is taken: of a bucket
-- how far its schedule was ahead of which time, of others the step and the uses in it
-- and in those before it.

local FIXED = 13
local LIMIT, SLIDINGLIMIT = FIXED, FIXED + SEGMENTS
local KIND, QUOTA, PER, BURST, LEASE, TRANSIT = 1, 2, 3, 4, 5, 6
local NEXT, RAISE, STEP, USED, AHEAD, ASOF = 7, 11, 12, 13, 12, 13

local limits = {}
for i = 1, 8 do
	local v = h['l' .. i]
	if not v then break end
	local size = #v / 8
	if size ~= LIMIT and size ~= SLIDINGLIMIT then garbage('l' .. i) end
	local c = {unpackd('<' .. string.rep('d', size), v)}
	c[size + 1] = nil -- where it ends
	whole(c, size, 'l' .. i)
	if c[KIND] > WINDOW or (c[KIND] == SLIDING) ~= (size == SLIDINGLIMIT) or
		c[QUOTA] < 1 or c[QUOTA] > 1000000000 or c[BURST] > c[QUOTA] or
		c[PER] < 1000000 or c[PER] > MAXCOOL * 1000 or c[LEASE] > c[PER] or c[TRANSIT] > c[PER] then
		garbage('l' .. i)
	end
	limits[i] = c
end
local version, asked = h.lv or '', h.la or ''
if (#limits > 0) ~= (h.lv ~= nil) or #limits > 0 and not (h.la and string.find(version, '^%d+$') and #version == 20 and version <= MOST) then
	garbage('lv')
end
if asked ~= newasked and asked ~= '' then -- it will be told
	local i = 0
	for l in string.gmatch(asked .. ';', '([^;]*);') do
		i = i + 1
		local k, quota, per, burst, lease, transit = string.match(l, '^(%d+):(%d+):(%d+):(%d+):(%d+):(%-?%d+)$')
		local c = limits[i]
		if not c or not k or #transit > 17 or int(k, 'la') ~= c[KIND] or int(per, 'la') ~= c[PER] or
			int(quota, 'la') < 1 or int(quota, 'la') > 1000000000 or int(burst, 'la') > int(quota, 'la') or
			int(lease, 'la') > c[PER] or (c[KIND] ~= BUCKET and (burst ~= '0' or lease ~= '0')) or
			tonumber(transit) * (c[KIND] == SLIDING and SEGMENTS or 1) >= c[PER] then
			garbage('la')
		end
	end
	if i ~= #limits then garbage('la') end
end

-- step is how long a step is, in microseconds: rounded up, as SEGMENTS of them may not
-- be shorter than a Per.
local function step(c)
	if c[KIND] == SLIDING then return ceil(c[PER] / (SEGMENTS * 1000)) end
	return ceil(c[PER] / 1000)
end

-- Times that are further ahead than any of ours.
if not fresh then
	for i, c in ipairs(limits) do
		if c[KIND] ~= BUCKET and c[STEP] * step(c) > now + 2 * BACK then garbage('l' .. i) end
	end
	for _, c in pairs(cools) do
		if c.till > now + MAXCOOL + 2 * BACK then garbage('c:') end
	end
	if probeends > now + 2 * BACK then garbage('p') end
end

-- spread is count*w/m, rounded down, or CAP if that is more: exact, since no product
-- is more than 2^53. count and m are at most 1e9.
local function spread(c, count)
	local w, m = c[PER] + c[LEASE] + c[TRANSIT], c[QUOTA] + 1 - c[BURST]
	local q, r = floor(w / m), w % m
	local a = count * q
	if a >= CAP then return CAP end
	local high, low = floor(count / 100000), count % 100000
	local t = high * r
	return min(CAP, a + floor(t / m) * 100000 + floor(((t % m) * 100000 + low * r) / m))
end

local function charged(c, count) return spread(c, count) + 1 end
local function depth(c) return spread(c, c[BURST]) + 1 end

-- ahead is how far a bucket's schedule is ahead of now.
local function ahead(c)
	return max(0, c[AHEAD] - min(CAP, max(0, now - c[ASOF]) * 1000))
end

local function slot(c, s) return USED + s % (SEGMENTS + 1) end

-- roll brings c up to at.
local function roll(c, at)
	if c[RAISE] ~= 0 and at >= c[RAISE] then
		c[QUOTA], c[BURST], c[LEASE], c[TRANSIT] = c[NEXT], c[NEXT + 1], c[NEXT + 2], c[NEXT + 3]
		c[RAISE] = 0
	end
	if c[KIND] == BUCKET then return end
	local s = floor(at / step(c))
	if c[KIND] == WINDOW then
		if s > c[STEP] then c[USED] = 0 end
	else
		for i = max(c[STEP] + 1, s - SEGMENTS), s do c[slot(c, i)] = 0 end
	end
	c[STEP] = max(c[STEP], s)
end

local function taken(c)
	local sum = c[USED]
	if c[KIND] == SLIDING then
		for i = USED + 1, USED + SEGMENTS do sum = sum + c[i] end
	end
	return sum
end

local function ending(c) return (c[STEP] + 1) * step(c) end

-- valid is for how long a grant of now may be used, rounded down.
local function valid(c)
	if c[KIND] == BUCKET then return floor(c[LEASE] / 1000) end
	return ending(c) - ceil(c[TRANSIT] / 1000) - now
end

local function available(c)
	if c[KIND] ~= BUCKET then
		if valid(c) <= 0 then return 0 end
		return max(0, c[QUOTA] - taken(c))
	end
	local room, k, bit = depth(c) - ahead(c), 0, 1073741824
	while bit >= 1 do
		if k + bit <= c[BURST] and charged(c, k + bit) <= room then k = k + bit end
		bit = bit / 2
	end
	return k
end

-- when is when count more could be granted, if nobody takes any until then but who is
-- to come before.
local function when(c, count)
	if c[KIND] == BUCKET then
		return now + max(0, ceil(min(CAP, ahead(c) + count * charged(c, 1) - depth(c)) / 1000))
	end
	if c[KIND] == SLIDING and count > c[QUOTA] - taken(c) then
		local over = taken(c) + min(count, c[QUOTA]) - c[QUOTA]
		for i = max(0, c[STEP] - SEGMENTS), c[STEP] do
			over = over - c[slot(c, i)]
			if over <= 0 then return (i + SEGMENTS + 1) * step(c) end
		end
	end
	return ending(c)
end

-- charge counts k permits; less than 0 gives them back.
local function charge(c, k)
	if c[KIND] == BUCKET then
		if k > 0 then c[AHEAD], c[ASOF] = min(CAP, ahead(c) + charged(c, k)), max(now, c[ASOF]) end
		return
	end
	local i = USED
	if c[KIND] == SLIDING then i = slot(c, c[STEP]) end
	c[i] = min(TOP, max(0, c[i] + k))
end

-- drain counts all as taken at at, which may be to come.
local function drain(c, at)
	roll(c, at)
	if c[KIND] == BUCKET then
		local since = max(-CAP, (at - now) * 1000)
		c[AHEAD], c[ASOF] = max(ahead(c), depth(c) + since), now
		return
	end
	local i = USED
	if c[KIND] == SLIDING then i = slot(c, c[STEP]) end
	c[i] = max(c[i], c[QUOTA])
end

local function new(l, at)
	local c = {}
	for i = 1, LIMIT do c[i] = 0 end
	for i = 1, 6 do c[i] = l[i] end
	if c[KIND] == SLIDING then
		for i = LIMIT + 1, SLIDINGLIMIT do c[i] = 0 end
	end
	if c[KIND] ~= BUCKET then c[STEP] = floor(min(at, now) / step(c)) end
	drain(c, at)
	return c
end

-- change sets another limit of the same kind and per.
local function change(c, l)
	c[RAISE] = 0
	if c[KIND] == BUCKET then -- what counts now are permits: at the new pace they take as long
		local a, old = ahead(c), charged(c, 1)
		local pace = charged(l, 1)
		if pace > old and a > 0 then
			c[AHEAD], c[ASOF] = min(CAP, ceil(a * (pace / old)) + 8), max(now, c[ASOF])
		end
	end
	if l[QUOTA] <= c[QUOTA] and l[BURST] <= c[BURST] and l[LEASE] <= c[LEASE] and l[TRANSIT] >= c[TRANSIT] then
		c[QUOTA], c[BURST], c[LEASE], c[TRANSIT] = l[QUOTA], l[BURST], l[LEASE], l[TRANSIT]
		return
	end
	c[NEXT], c[NEXT + 1], c[NEXT + 2], c[NEXT + 3] = l[QUOTA], l[BURST], l[LEASE], l[TRANSIT]
	c[RAISE] = now + ceil(l[PER] / 1000)
	if c[KIND] == WINDOW then c[RAISE] = ending(c) end
	c[QUOTA] = min(c[QUOTA], l[QUOTA])
	c[BURST] = min(c[BURST], l[BURST], c[QUOTA])
end

if fresh then
	for i, c in ipairs(limits) do
		local l = new(c, lost)
		if c[RAISE] ~= 0 then
			for j = NEXT, NEXT + 3 do l[j] = c[j] end
			l[RAISE] = now + ceil(c[PER] / 1000)
		end
		limits[i] = l
	end
end

-- What is asked.

local tell, answer = false, {granted = 0, valid = 0, again = 0, held = 0, slots = 0, probe = 0, probeends = 0}

local function setlimits()
	if newasked == '' or asked ~= '' and newversion <= version then return end
	local first, new_ = asked == '', {}
	for l in string.gmatch(newlimits, '[^;]+') do
		local t = {}
		for d in string.gmatch(l, '%d+') do t[#t + 1] = tonumber(d) end
		new_[#new_ + 1] = t
	end
	local alike = #new_ == #limits
	for i = 1, #limits do
		alike = alike and limits[i][KIND] == new_[i][KIND] and limits[i][PER] == new_[i][PER]
	end
	for i = 1, #new_ do
		if alike then
			roll(limits[i], now)
			change(limits[i], new_[i])
		else
			limits[i] = new(new_[i], first and lost or now)
		end
	end
	for i = #limits, #new_ + 1, -1 do
		limits[i] = nil
		drop('l' .. i)
	end
	if not alike then
		for name, o in pairs(nodes) do
			if o[HAS] > 0 then
				o[HAS] = 0
				if o ~= n then o.changed = true end
			end
		end
	end
	asked, version = newasked, newversion
	put('la', asked)
	put('lv', version)
	tell = tell or not first
end

local changedcools = {}

-- extend moves the end of a scope's cooldown to till, if it is earlier.
local function extend(scope, till, g)
	gen = max(gen, g)
	local c = cools[scope]
	if not c then
		if kept >= MAXSCOPES then
			local first
			for s, o in pairs(cools) do -- the whole key stays
				if s ~= '' and (not first or o.till < cools[first].till) then first = s end
			end
			cools[first], changedcools[first] = nil, true
			kept = kept - 1
		end
		c = {till = 0}
		cools[scope] = c
		kept = kept + 1
	end
	c.till, c.gen = max(c.till, till), g
	changedcools[scope] = true
	if scope == '' then probing, prober, probeends = true, '', 0 end
end

local function cool()
	local i = 3
	local function list(length, size)
		local all = {}
		for j = 1, length do
			all[j] = {unpack(ARGV, i + 1, i + size)}
			i = i + size
		end
		return all
	end
	local said, known, clear = list(arg[16], 2), list(arg[17], 3), list(arg[18], 1)
	for s, c in pairs(cools) do -- what is over is forgotten; the probe stays
		if c.till + REMEMBER <= now then
			cools[s], changedcools[s] = nil, true
			kept = kept - 1
		end
	end
	for _, k in ipairs(clear) do
		local c = cools[k[1]]
		if c and c.till > now then
			gen = gen + 1
			c.till, c.gen, changedcools[k[1]] = now, gen, true
			if k[1] == '' then probing = false end
			tell = true
		end
	end
	for _, k in ipairs(known) do
		local c, left, g = cools[k[1]], tonumber(k[2]), tonumber(k[3])
		if left > 0 and (not c or c.gen < g) then
			extend(k[1], now + min(left, MAXCOOL), g > gen and g or gen + 1)
			tell = true
		end
	end
	for _, k in ipairs(said) do
		local c, till = cools[k[1]], now + min(tonumber(k[2]), MAXCOOL)
		if not c or c.till < till then
			extend(k[1], till, gen + 1)
			tell = true
		end
	end
end

local function slotswanted()
	for _, o in pairs(nodes) do
		if o ~= n and o[WANTSLOTS] > 0 then return true end
	end
	return false
end

-- slotslacking is how many slots other nodes want that have less than their part.
local function slotslacking(fair)
	local sum = 0
	for _, o in pairs(nodes) do
		if o ~= n and o[WANTSLOTS] > 0 then sum = sum + max(0, min(o[WANTSLOTS], fair - o[HELD])) end
	end
	return sum
end

local function shareslots()
	local before = n[HELD]
	n[SLOTS], n[WANTSLOTS] = slots, wantslots
	if slots == 0 or bye then
		n[HELD] = 0
		tell = tell or before > 0
		return
	end
	local capacity, others, content, wanting = 1048576, 0, 0, 0
	for _, o in pairs(nodes) do
		if o[SLOTS] > 0 then capacity = min(capacity, o[SLOTS]) end
		if o ~= n then others = others + o[HELD] end
		if o[WANTSLOTS] > 0 then
			wanting = wanting + 1
		elseif o ~= n then
			content = content + o[HELD]
		end
	end
	local fair, contested = max(1, floor((capacity - content) / max(1, wanting))), slotswanted()
	if now < from then
		n[HELD] = min(held, capacity) -- somebody may hold the rest
	else
		-- What it holds and is not known to have, it can only ask for.
		local more = wantslots + max(0, held - n[HELD])
		n[HELD] = min(held, n[HELD])
		local free = capacity - others - n[HELD]
		if contested then -- beyond its part, one at a time of what is left of the others'
			more = min(more, max(fair - n[HELD], min(1, free - slotslacking(fair))))
		end
		n[HELD] = n[HELD] + max(0, min(more, free))
	end
	answer.held, answer.slots = n[HELD], n[EXPIRES]
	local lack = slotslacking(fair)
	if n[HELD] > fair and lack > 0 then
		answer.held = max(fair, n[HELD] - lack) -- no more is to be started; what runs counts until it is over
	end
	tell = tell or n[HELD] < before and contested
end

local function giveback()
	local over = false
	for _, c in ipairs(limits) do
		over = over or c[KIND] ~= BUCKET and floor(n[AT] / step(c)) ~= floor(now / step(c))
	end
	if over then n[HAS] = 0 end
	local back = min(returned, n[HAS])
	n[HAS] = n[HAS] - back
	n[GOT] = max(0, n[GOT] - back)
	for _, c in ipairs(limits) do
		charge(c, -back)
		if debt > 0 then charge(c, debt) end
	end
end

local function probe()
	local c = cools['']
	if c and c.till > now then
		answer.probe, answer.probeends, answer.again = COOLING, c.till, c.till
		return
	end
	if not probing then return end
	if word == PASSED and prober == me then
		probing, prober, tell = false, '', true
		return
	end
	if prober ~= '' and probeends <= now then prober = '' end
	if prober == '' and word == WANTED and not bye then
		prober, probeends = me, now + ttl
	end
	if prober == '' then
		answer.probe = OPEN
		return
	end
	answer.probe, answer.probeends = prober == me and YOURS or OTHER, probeends
end

-- expected is until when another node may yet come, for permits that it was refused
-- before, or for more of what it has just been granted.
local function expected()
	local till = 0
	for _, o in pairs(nodes) do
		if o ~= n and o[TOLD] ~= 0 and o[TOLD] <= now then
			till = max(till, o[TOLD] + MOMENT)
		elseif o ~= n and o[TOLD] == 0 and o[11] > 0 and o[11] < o[WANTS] then
			till = max(till, o[AT] + MOMENT)
		end
	end
	return till
end

-- comeagain is when n is to ask again. Who was told so before is expected before it.
local function comeagain(least)
	local before, at = 0, 0
	for _, o in pairs(nodes) do
		if o ~= n and o[TOLD] > now then before = before + 1 end
	end
	for _, c in ipairs(limits) do
		if available(c) < least then
			local k = least
			if c[KIND] == BUCKET then
				k = max(least, (before + 1) * max(1, floor(c[BURST] / (2 * count))))
			elseif c[KIND] == SLIDING then
				k = min(c[QUOTA], least + before)
			end
			at = max(at, when(c, k))
		end
	end
	return at
end

local function grant()
	n[WANTS], n[TOLD] = want, 0
	if #limits == 0 or want == 0 or bye or answer.probe == COOLING then return end
	local wants = want
	if answer.probe == YOURS then
		wants = least
	elseif answer.probe ~= 0 then
		answer.again = answer.probeends
		return
	end
	local avail, usable = 1000000000, TOP
	for _, c in ipairs(limits) do
		avail, usable = min(avail, available(c)), min(usable, valid(c))
	end
	if avail < least or usable <= 0 then
		n[TOLD] = comeagain(least)
		answer.again = n[TOLD]
		return
	end
	-- All nodes that want some are to get the same in a round, and what is left at its
	-- end goes in ever smaller pieces, so that none is stranded with one that does not
	-- use it.
	local round = floor(now / ceil(limits[1][PER] / 1000))
	if n[ROUND] ~= round then n[GOT], n[ROUND] = 0, round end
	local active, sum = 0, 0
	for _, o in pairs(nodes) do
		local got = o[ROUND] == round and o[GOT] or 0
		if o[WANTS] > 0 or got > 0 then
			active, sum = active + 1, sum + got
		end
	end
	local fair, till = ceil((avail + sum) / active) - n[GOT], expected()
	if fair <= 0 and limits[1][KIND] ~= BUCKET and till > now then
		answer.again = till
		return
	end
	local chunk = fair
	if fair <= 0 then chunk = max(1, ceil(avail / floor((active + 2) / 3))) end
	local k = min(wants, avail, max(least, chunk))
	for _, c in ipairs(limits) do charge(c, k) end
	n[GOT], n[HAS], n[AT] = n[GOT] + k, n[HAS] + k, now
	answer.granted, answer.valid = k, now + usable
	-- Each step a Sliding limit gives back is small: what is left of it is about to be
	-- taken by those who are expected.
	if k < wants and (avail - k < least or limits[1][KIND] == SLIDING and avail - k < count and till > now) then
		n[TOLD] = comeagain(least + max(0, avail - k))
		answer.again = n[TOLD]
	end
end

local stale, repeated = false, false
if not n then
	n = {}
	for i = 1, NODE do n[i] = 0 end
	nodes[me] = n
	count = count + 1
elseif seq < n.seq then
	stale = true
elseif seq == n.seq then
	repeated = true
	answer = {granted = n[11], valid = n[12], again = n[13], held = n[14], slots = n[15], probe = n[16], probeends = n[17]}
	if answer.valid <= now then answer.granted = 0 end
	if answer.slots <= now then answer.held = 0 end
end
if stale then return table.concat({me, KEYS[1], seq, '1'}, ' ') end

if not repeated then
	n[EXPIRES] = now + ttl
	setlimits()
	for _, c in ipairs(limits) do roll(c, now) end
	cool()
	shareslots()
	giveback()
	probe()
	grant()
end

local function left(at) return max(0, at - now) end

local told, tellcools = 0, {}
for s, c in pairs(cools) do
	if theirepoch == epoch and c.gen > seen or theirepoch ~= epoch and c.till > now then
		told = told + 1
		tellcools[told] = string.format(' %d:%s %.0f %.0f', #s, s, min(MAXCOOL, left(c.till)), c.gen)
	end
end
local reply = string.format('%s %s %s 0 %s %.0f %.0f %.0f %s %s %.0f %.0f %.0f %.0f %.0f %.0f %.0f',
	me, KEYS[1], seq, epoch, answer.granted, left(answer.valid), left(answer.again),
	version == '' and '0' or version, asked ~= '' and asked ~= newasked and asked or '-', gen,
	answer.probe, left(answer.probeends), answer.held, left(answer.slots), count, told) ..
	table.concat(tellcools)
if repeated then return reply end

-- What it has become.

for i, c in ipairs(limits) do
	put('l' .. i, pack('<' .. string.rep('d', #c), unpack(c)))
end
for s in pairs(changedcools) do
	local c = cools[s]
	if c then put('c:' .. s, pack('<dd', c.till, c.gen)) else drop('c:' .. s) end
end
if fresh then
	for s, c in pairs(cools) do
		if not changedcools[s] then put('c:' .. s, pack('<dd', c.till, c.gen)) end
	end
end
if bye then
	tell = tell or n[HELD] > 0 or prober == me
	if prober == me then prober, probeends = '', 0 end
	drop('n:' .. me)
else
	n[11], n[12], n[13], n[14], n[15], n[16], n[17] = answer.granted, answer.valid, answer.again,
		answer.held, answer.slots, answer.probe, answer.probeends
	put('n:' .. me, pack(NODEFORMAT, unpack(n, 1, NODE)) .. seq)
end
for name, o in pairs(nodes) do
	if o.changed then
		local v = call('HGET', KEYS[1], 'n:' .. name)
		put('n:' .. name, pack(SEENFORMAT, unpack(o, 1, SEEN)) .. string.sub(v, SEEN * 8 + 1))
	end
end
if probing then
	local p = str(probeends) .. ' ' .. prober
	if p ~= h.p then put('p', p) end
elseif h.p then
	drop('p')
end
if str(gen) ~= h.g then put('g', str(gen)) end
put('t', str(now))

local keep = 86400000000 -- a day
for _, c in ipairs(limits) do
	keep = max(keep, 10 * ceil(c[PER] / 1000))
	if c[KIND] == BUCKET then keep = max(keep, ceil(ahead(c) / 1000)) end
end
for _, c in pairs(cools) do keep = max(keep, c.till - now + REMEMBER) end
keep = max(keep, lost - now + REMEMBER)

if renew then
	call('HSET', KEYS[2], 'f', witness.f, 'b', str(witness.b), 'l', str(witness.l), 'e', witness.e)
end
if #del > 0 then call('HDEL', KEYS[1], unpack(del)) end
call('HSET', KEYS[1], unpack(set))
call('PEXPIRE', KEYS[1], str(ceil(keep / 1000)))
if tell then redis.pcall('PUBLISH', KEYS[1], '') end
return reply

-- Limits: what is taken under each, and what there is. c is one that is kept.

local KIND, QUOTA, PER, BURST, LEASE, TRANSIT = 1, 2, 3, 4, 5, 6
local NEXT, RAISE, STEP, USED, AHEAD, ASOF = 7, 11, 12, 13, 12, 13
local LIMIT, SLIDINGLIMIT = 13, 45 -- numbers

-- step is how long a step is, in microseconds: rounded up, as SEGMENTS of them may not
-- be shorter than a Per.
local function step(c)
	if c[KIND] == SLIDING then return ceil(c[PER] / (SEGMENTS * 1000)) end
	return ceil(c[PER] / 1000)
end

-- parsed returns the limits that were asked for.
local function parsed(text)
	local all = {}
	for l in string.gmatch(text .. ';', '([^;]*);') do
		local k, quota, per, burst, lease, transit = string.match(l, '^(%d+):(%d+):(%d+):(%d+):(%d+):(%-?%d+)$')
		if not k or #transit > 17 then garbage('la') end
		local c = {int(k, 'la'), int(quota, 'la'), int(per, 'la'), int(burst, 'la'), int(lease, 'la'), tonumber(transit)}
		if c[QUOTA] < 1 or c[QUOTA] > 1000000000 or c[BURST] > c[QUOTA] or c[LEASE] > c[PER] or
			c[KIND] ~= BUCKET and c[BURST] + c[LEASE] > 0 or
			c[TRANSIT] * (c[KIND] == SLIDING and SEGMENTS or 1) >= c[PER] then
			garbage('la')
		end
		all[#all + 1] = c
	end
	return all
end

-- filled writes the defaults of a limit out, as store.Limit.Fill does.
local function filled(l)
	if l[KIND] == BUCKET and l[BURST] == 0 then l[BURST] = max(1, min(2, floor(l[QUOTA] / 20)), floor(l[QUOTA] / 100)) end
	if l[KIND] == BUCKET and l[LEASE] == 0 then l[LEASE] = min(floor(l[PER] / 50), 5000000000) end
	if l[TRANSIT] == 0 then l[TRANSIT] = min(floor(l[PER] / 100), 10000000) end
	l[TRANSIT] = max(0, l[TRANSIT])
	return l
end

-- constants is what an l1 of one limit, asked for by text, is when nothing is raised.
local function constants(text)
	local all = parsed(text)
	if #all ~= 1 then garbage('b') end
	local c = filled(all[1])
	for i = NEXT, CONSTANTS do c[i] = 0 end
	return c
end

-- believed is b, of the limit c.
local function believed(c, fence, version, asked)
	return 'master_replid:' .. sub(fence, 1, 40) ..
		pack('<I8I8I8I8I8', c[KIND], c[QUOTA], ceil(c[PER] / 1000), step(c), ceil(c[TRANSIT] / 1000)) ..
		(c[KIND] == BUCKET and pack('<I8I8I8I8', c[PER], c[BURST], c[LEASE], c[TRANSIT]) or '') ..
		sub(fence, 25) .. ' ' .. string.match(version, '^0*(%d+)$') .. ' ' .. asked
end

local limits = {}
for i = 1, 8 do
	local v, c = h['l' .. i], nil
	if i == 1 then -- what is taken is in m and t
		if v then
			if #v ~= 8 * CONSTANTS then garbage('l1') end
			c = numbers('<' .. string.rep('I8', CONSTANTS), v, CONSTANTS, 'l1')
		elseif h.b then
			c = constants(asked)
		else
			break
		end
		if not counts then garbage('m') end
		c[STEP] = counts[1]
		if c[KIND] == SLIDING then
			local t, sum = {}, 0
			if h.t then
				if #h.t ~= 8 * (SEGMENTS + 1) then garbage('t') end
				t = numbers(STEPSFORMAT, h.t, SEGMENTS + 1, 't')
			end
			for j = 0, SEGMENTS do
				c[USED + j] = (t[j + 1] or 0) + (j == c[STEP] % (SEGMENTS + 1) and counts[3] or 0)
				sum = sum + c[USED + j]
			end
			if sum ~= counts[2] then garbage('m') end
		else
			c[USED] = counts[2]
		end
	elseif v then
		local size = #v / 8
		if size < LIMIT or size > SLIDINGLIMIT or size % 1 > 0 then garbage('l' .. i) end
		c = numbers('<' .. string.rep('I8', size), v, size, 'l' .. i)
	else
		break
	end
	if c[KIND] > WINDOW or #c ~= (c[KIND] == SLIDING and SLIDINGLIMIT or LIMIT) or
		c[QUOTA] < 1 or c[QUOTA] > 1000000000 or c[BURST] > c[QUOTA] or
		c[PER] < 1000000 or c[PER] > LONGEST * 1000 or c[LEASE] > c[PER] or c[TRANSIT] > c[PER] then
		garbage('l' .. i)
	end
	limits[i] = c
end
if (#limits > 0) ~= (version ~= '') or #limits > 0 and not (asked ~= '' and find(version, '^%d+$') and #version == 20 and version <= MOST) then
	garbage('lv')
end
if asked ~= newasked and asked ~= '' then -- it will be told
	local all = parsed(asked)
	for i = 1, max(#all, #limits) do
		local l, c = all[i], limits[i]
		if not l or not c or l[KIND] ~= c[KIND] or l[PER] ~= c[PER] then garbage('la') end
	end
end
if h.b and (#limits ~= 1 or h.b ~= believed(limits[1], found, version, asked)) then garbage('b') end

-- Times that are further ahead than any of ours.
if not fresh then
	if lost > now + 3 * LONGEST then garbage('v') end -- more than any per, lease and transit
	for i, c in ipairs(limits) do
		if c[KIND] ~= BUCKET and c[STEP] * step(c) > max(now, lost) + 2 * BACK then garbage('l' .. i) end
	end
	for _, c in pairs(cools) do
		if c.till > now + LONGEST + 2 * BACK then garbage('c:') end
	end
	if probeends > now + 2 * BACK then garbage('p') end
end

-- span and rest are W and m of store.Limit.Charge.
local function span(c) return c[PER] + c[LEASE] + c[TRANSIT] end
local function rest(c) return c[QUOTA] + 1 - c[BURST] end

local function charged(c, count) return spread(span(c), rest(c), count) + 1 end

local function depth(c) return charged(c, c[BURST]) end

-- ahead is how far a bucket's schedule is ahead of now.
local function ahead(c)
	return max(0, c[AHEAD] - min(CAP, max(0, now - c[ASOF]) * 1000))
end

local function slot(c, s) return USED + s % (SEGMENTS + 1) end

-- becomes has other numbers count from at on. A bucket's schedule is ahead by as many
-- permits as before: see store.Limit.repaced.
local function becomes(c, at, quota, burst, lease, transit)
	local w, m = span(c), rest(c)
	c[QUOTA], c[BURST], c[LEASE], c[TRANSIT] = quota, burst, lease, transit
	if c[KIND] ~= BUCKET or w == span(c) and m == rest(c) then return end
	local d = max(0, c[AHEAD] - min(CAP, max(0, at - c[ASOF]) * 1000))
	if d > 0 then
		local to = d * (span(c) * m / (w * rest(c)))
		c[AHEAD], c[ASOF] = min(CAP, ceil(to + to / 1125899906842624) + 8), max(at, c[ASOF])
	end
end

-- roll brings c up to at.
local function roll(c, at)
	if c[RAISE] ~= 0 and at >= c[RAISE] then
		becomes(c, c[RAISE], c[NEXT], c[NEXT + 1], c[NEXT + 2], c[NEXT + 3])
		for i = NEXT, RAISE do c[i] = 0 end
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
	if c[KIND] == BUCKET then return floor((c[RAISE] ~= 0 and c[NEXT + 2] or c[LEASE]) / 1000) end
	return ending(c) - ceil(c[TRANSIT] / 1000) - now
end

local function available(c)
	if c[KIND] ~= BUCKET then
		if valid(c) <= 0 then return 0 end
		return max(0, c[QUOTA] - taken(c))
	end
	return most(span(c), rest(c), c[BURST], ahead(c))
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
		if k > 0 then -- what drain has made of it stays, though it may be more than CAP
			local a = ahead(c)
			c[AHEAD], c[ASOF] = min(max(CAP, a), a + charged(c, k)), max(now, c[ASOF])
		end
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
		c[AHEAD], c[ASOF] = min(TOP, max(ahead(c), depth(c) + since)), now
		return
	end
	local i = USED
	if c[KIND] == SLIDING then i = slot(c, c[STEP]) end
	c[i] = max(c[i], c[QUOTA])
end

-- Grants: permits that come back, and those that are handed out.

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

-- enough is when there are least permits beside those that are kept, and those of so many
-- nodes that are to come before.
local function enough(least, before)
	local at = 0
	for _, c in ipairs(limits) do
		if available(c) < least + keeping then
			local k = least
			if c[KIND] == BUCKET then
				k = keeping + max(least, (before + 1) * max(1, floor(c[BURST] / (2 * count))))
			elseif c[KIND] == SLIDING then
				k = min(c[QUOTA], least + before)
			end
			at = max(at, when(c, k))
		end
	end
	return at
end

-- comeagain is when n is to ask again, that was told so before: see store/memory_grant.go.
local function comeagain(least, told)
	local place, before = TOP, 0
	if told > now then
		place = told - 1
	elseif told > 0 and limits[1][KIND] == BUCKET and charged(limits[1], 1) >= 5000000 then -- a MOMENT
		place = enough(least, 0)
	end
	for i = 1, #promises do
		if promises[i] <= place then before = before + 1 end
	end
	return enough(least, before)
end

-- holds reports whether there are k permits, or will be as soon as the buckets have them.
local function holds(k)
	for _, c in ipairs(limits) do
		if k > (c[KIND] == BUCKET and c[BURST] or available(c)) then return false end
	end
	return true
end

local function grant()
	-- A bucket gives back little by little: for turns see store/memory_grant.go.
	local told, turn = n[TOLD], n[WANTS] >= TURNS
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
	if not holds(keeping) then keeping = 0 end
	avail = avail - keeping
	local refused, short = avail < least or usable <= 0, avail < least
	avail = max(0, avail)
	-- All nodes that want some are to get the same in a round, and what is left at its
	-- end goes in ever smaller pieces, so that none is stranded with one that does not
	-- use it.
	local round = floor(now / ceil(limits[1][PER] / 1000))
	if n[ROUND] ~= round then n[GOT], n[ROUND] = 0, round end
	local active, sum = 1 + asking + (gets[round] or 0), n[GOT] + (gots[round] or 0)
	local chunk, kind, till = ceil((avail + sum) / active) - n[GOT], limits[1][KIND] -- its fair part
	if refused then
		n[TOLD] = comeagain(least, told)
		if told > now and least > 1 and kind == BUCKET then n[TOLD] = min(n[TOLD], told) end
		answer.again = n[TOLD]
		if least > 1 and short and keeping == 0 and told ~= 0 and (turn or told <= now) and holds(least) and chunk > 0 then
			n[WANTS] = TURNS + least
		end
		return
	end
	if kind ~= BUCKET and (chunk <= 0 or kind == SLIDING) then till = expected end
	if chunk <= 0 and kind ~= BUCKET and till > now then
		answer.again = till
		return
	end
	if chunk <= 0 then chunk = max(1, ceil(avail / floor((active + 2) / 3))) end
	local k = min(wants, avail, max(least, chunk))
	for _, c in ipairs(limits) do charge(c, k) end
	n[GOT], n[HAS], n[AT] = n[GOT] + k, n[HAS] + k, now
	answer.granted, answer.valid = k, now + usable
	-- Each step a Sliding limit gives back is small: what is left of it is about to be
	-- taken by those who are expected.
	if k < wants and (avail - k < least or kind == SLIDING and avail - k < count and till > now) then
		n[TOLD] = comeagain(least + max(0, avail - k), 0)
		answer.again = n[TOLD]
	end
end

-- Slots: those of a node that is gone are free. See store/memory_slots.go for who has how
-- many, and the order in which nodes have their turn.

-- level is how many of so many slots each of all may have: what is left by those who want
-- less, in equal parts.
local function level(many, all)
	local demands, rest = {}, many
	for i, s in ipairs(all) do demands[i] = s.demand end
	table.sort(demands)
	for i, d in ipairs(demands) do
		local part = floor(rest / (#demands - i + 1))
		if d > part then return part end
		rest = rest - d
	end
	return many
end

local function shareslots(last)
	local STAMPS, DAY = 4294967295, 86400000000 -- 2^32-1
	local before, waited, waits = n[HELD], floor(n[SLOTS] / PAIR), 0
	local kept = min(held, before)
	if slots == 0 or bye then
		n[SLOTS], n[WANTSLOTS], n[HELD] = slots, wantslots + PAIR * leastslots, 0
		tell = tell or before > 0
		return
	end
	if wantslots > 0 or leastslots > 0 then waits = floor((now - min(slotswaited, DAY)) / 1000) % STAMPS + 1 end
	n[SLOTS], n[WANTSLOTS], n[HELD] = slots + PAIR * waits, wantslots + PAIR * leastslots, kept

	local self = {held = kept, wants = wantslots, needs = max(1, leastslots), waits = waits, name = node, alive = n[EXPIRES]}
	local all, contested, capacity = {}, false, min(capacity, slots)
	for i = 0, #sharers do
		local s = sharers[i] or self
		s.least, s.demand = 0, s.held
		if s.waits > 0 and s.needs <= capacity then
			s.least, s.demand = s.needs, min(capacity, max(s.needs, s.held + s.wants))
		end
		if s ~= self and s.least > 0 then contested = true end
		if s.demand > 0 then all[#all + 1] = s end
	end

	-- earlier reports whether o waits since before p does, or as long and has the lesser name.
	local stamp = floor(now / 1000) % STAMPS + 1
	local function earlier(o, p)
		local a, b = (stamp - o.waits + STAMPS) % STAMPS, (stamp - p.waits + STAMPS) % STAMPS
		if a ~= b then return a > b end
		return o.name < p.name
	end

	local even = level(capacity, all)
	local part, first = even, nil
	for _, s in ipairs(all) do
		if s.least > 0 and (s.held < s.least or s.least > part) and s.alive - ttl / 2 > now and (not first or earlier(s, first)) then
			first = s
		end
	end
	local big, keep = false, 0 -- whether it takes more than the level; what is kept for it
	if first then
		big = first.least > part
		keep = max(first.least, min(first.demand, part))
		local rest = {}
		for _, s in ipairs(all) do
			if s ~= first then
				if s.least > part then s.demand = s.held end -- it is not its turn
				rest[#rest + 1] = s
			end
		end
		all, part = rest, level(capacity - keep, rest)
	end

	-- due is how many slots s, who is not the first, is to have: calls of its part.
	local function due(s)
		if s.least == 0 then return 0 end
		return min(s.demand, part - part % s.least)
	end

	local mine, lack, reserved = due(self), 0, 0
	for _, s in ipairs(all) do
		if s ~= self then lack = lack + max(0, due(s) - s.held) end
	end
	if first == self then
		mine = keep
	elseif first then
		lack = lack + max(0, keep - first.held)
		reserved = max(0, first.least - first.held)
	end

	if now < from then
		n[HELD] = min(held, capacity) -- somebody may hold the rest
	else
		-- What it holds and is not known to have, it can only ask for.
		local more, free = wantslots + max(0, held - before), capacity - theirs - kept
		if contested and kept < mine then
			more = min(more, mine - kept, free - reserved)
		elseif contested then -- beyond its part, a call at a time of what is left of the others'
			local takes = max(1, self.least)
			if kept < takes then takes = takes - kept end
			more = min(more, takes)
			if free - lack < more then more = 0 end
		end
		more = min(more, free)
		if kept + more >= max(1, leastslots) then n[HELD] = kept + max(0, more) end
	end
	self.held = n[HELD]
	local free = capacity - theirs - n[HELD]
	if first == self then part = keep end
	answer.held, answer.slots = n[HELD], n[EXPIRES]
	local short = lack - free
	if short > 0 and n[HELD] > part and now >= from then
		answer.held = max(part, n[HELD] - short) -- no more is to be started; what runs counts until it is over
	end

	-- Who hears of it.
	if n[HELD] < before and contested and free >= reserved then
		tell = true
		return
	end
	local grown = n[HELD] > kept
	local began = (waited == 0) ~= (waits == 0) or waits ~= 0 and now - slotswaited > last
	if first == self and not big and grown then
		first, began = nil, true
		for _, s in ipairs(all) do
			if s.least > 0 and (s.held < s.least or s.least > even) and (not first or earlier(s, first)) then first = s end
		end
		big = first and first.least > even
	end
	if not began or not big or first.least - first.held <= free then return end
	local others = grown
	for _, s in ipairs(all) do others = others or s ~= self and s.held > 0 end
	tell = tell or others
end

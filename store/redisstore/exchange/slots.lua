-- Slots: those of a node that is gone are free. See store/memory_slots.go for the order in
-- which nodes have their turn.

local function shareslots()
	local PAIR, STAMPS = 2097152, 4294967295 -- 2^21, 2^32-1
	local before, stamp = n[HELD], floor(now / 1000) % STAMPS + 1
	local waits, least = (n[SLOTS] - n[SLOTS] % PAIR) / PAIR, max(1, leastslots)
	n[SLOTS], n[WANTSLOTS] = slots, wantslots + PAIR * leastslots
	if slots == 0 or bye then
		n[HELD] = 0
		tell = tell or before > 0
		return
	end
	if wantslots > 0 and waits == 0 then waits = stamp end
	local capacity, contested = min(capacity, slots), #wanters > 0
	local fair = max(1, floor((capacity - content) / max(1, #wanters + (wantslots > 0 and 1 or 0))))

	-- due is how many slots who needs so many at least is due.
	local function due(needs)
		if needs > capacity then return 0 end
		if needs > fair then return needs end
		return fair - fair % needs
	end

	-- earlier reports whether o waits since before p does, or as long and has the lesser name.
	local function earlier(o, p)
		local a, b = (stamp - o.waits + STAMPS) % STAMPS, (stamp - p.waits + STAMPS) % STAMPS
		if a ~= b then return a > b end
		return o.name < p.name
	end

	-- Of the others: what they lack who are before n, and all; and who is the first.
	local ahead, lack, first, self = 0, 0, nil, {waits = waits, name = node}
	for _, o in ipairs(wanters) do
		o.lacks = max(0, min(o.wants, due(o.least) - o.held))
		lack = lack + o.lacks
		if o.lacks > 0 and o.waits > 0 and (waits == 0 or earlier(o, self)) then
			ahead = ahead + o.lacks
			if not first or earlier(o, first) then first = o end
		end
	end
	local part, kept = due(least), min(before, held)
	if now < from then
		n[HELD] = min(held, capacity) -- somebody may hold the rest
	else
		-- What it holds and is not known to have, it can only ask for.
		local more = wantslots + max(0, held - n[HELD])
		n[HELD] = kept
		local free = capacity - theirs - n[HELD]
		if contested then
			if n[HELD] < part then
				more = min(more, part - n[HELD], free - ahead)
			else -- beyond its part, a call at a time of what is left of the others'
				more = min(more, least)
				if free - lack < more then more = 0 end
			end
			if least > fair and n[HELD] + more < least then more = 0 end
		end
		n[HELD] = n[HELD] + max(0, min(more, free))
	end
	if wantslots > 0 and part > n[HELD] then n[SLOTS] = slots + PAIR * waits end
	answer.held, answer.slots = n[HELD], n[EXPIRES]
	-- Of what is asked back no more is to be started; what runs counts until it is over.
	-- Who has just got some begins something with it first: that was his turn.
	if n[HELD] <= kept then
		if n[HELD] > fair and lack > 0 then answer.held = max(fair, n[HELD] - lack) end
		if first and first.least > fair then
			local short = first.lacks - (capacity - theirs - n[HELD])
			local rest = 1 + holders - (first.held > 0 and 1 or 0)
			if short > 0 then answer.held = min(answer.held, max(floor((capacity - first.least) / rest), n[HELD] - short)) end
		end
	end
	if least > fair and n[HELD] < least then answer.held = 0 end
	tell = tell or n[HELD] < before and contested
end

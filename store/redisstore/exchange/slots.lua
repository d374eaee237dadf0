-- Slots: those of a node that is gone are free. See store/memory_slots.go.

local function shareslots()
	local before = n[HELD]
	local lacks = waits > 0 and leastslots > min(n[HELD], held)
	n[SLOTS], n[WANTSLOTS] = slots, wantslots
	if slots == 0 or bye then
		n[HELD], n.line = 0, 0
		tell = tell or before > 0
		return
	end
	local capacity, contested = min(capacity, slots), wanters > 0
	local fair = max(1, floor((capacity - content) / max(1, wanters + ((wantslots > 0 or held > 0) and 1 or 0))))
	local first -- in line, of the others
	for _, o in ipairs(line) do
		if o.least <= capacity and (not first or o.number < first.number) then first = o end
	end
	local function stand(stays)
		if not stays then
			n.line = 0
		elseif n.line == 0 then
			n.line = lastinline + 1
		end
	end
	local function isfirst() return n.line > 0 and leastslots <= capacity and (not first or n.line < first.number) end
	local kept, lack = 0, 0
	-- reckon finds what is kept for the first in line, and what others lack who have less
	-- than their part, and a use for it.
	local function reckon()
		local ahead = not isfirst() and first or nil
		kept, lack = ahead and max(0, ahead.least - ahead.held) or 0, 0
		for i = 1, wanters do
			if useful[i] <= fair and not (ahead and ahead.wanter == i) then
				lack = lack + max(0, min(lacking[i], fair - having[i]))
			end
		end
	end
	if now < from then
		n[HELD] = min(held, capacity) -- somebody may hold the rest
		first, line = nil, {}
		reckon()
	else
		-- What it holds and is not known to have, it can only ask for.
		local more = wantslots + max(0, held - n[HELD])
		n[HELD] = min(held, n[HELD])
		local free = capacity - theirs - n[HELD]
		stand(lacks)
		if isfirst() then
			local k = max(0, min(leastslots - n[HELD], free))
			n[HELD], free, more = n[HELD] + k, free - k, more - k
			stand(n[HELD] < leastslots)
		end
		reckon()
		if n.line == 0 then
			free = free - kept
			if contested then -- beyond its part, one at a time of what is left of the others'
				more = min(more, max(fair - n[HELD], min(1, free - lack)))
			end
			more = min(more, free)
			if more > 0 and n[HELD] + more >= leastslots then n[HELD] = n[HELD] + more end
		end
	end
	n[WANTSLOTS] = max(0, wantslots - max(0, n[HELD] - held)) -- that it has yet to get
	answer.held, answer.slots = n[HELD], n[EXPIRES]
	local free = max(0, capacity - theirs - n[HELD])
	if n.line == 0 then -- what is asked back is not to be started any more; what runs counts until it is over
		local short = lack - max(0, free - kept)
		if short > 0 then answer.held = max(min(n[HELD], fair), n[HELD] - short) end
		answer.held = min(answer.held, max(0, n[HELD] - max(0, kept - free)))
		if waits > 0 and n[HELD] >= leastslots then answer.held = max(answer.held, leastslots) end -- it is yet to begin
	elseif not isfirst() then
		answer.held = 0
	end
	tell = tell or n[HELD] < before and contested
end

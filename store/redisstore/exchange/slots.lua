-- Slots: those of a node that is gone are free. See store/memory_slots.go.

local function shareslots()
	local WAITS = 1 -- what a node says of the line
	local before = n[HELD]
	n[SLOTS], n[WANTSLOTS] = slots, wantslots
	if slots == 0 or bye then
		n[HELD], n.line, n.turn = 0, 0, 0
		tell = tell or before > 0
		return
	end
	local capacity, contested = min(capacity, slots), wanters > 0

	-- The part: of what is left by those who want no more, or have no use for a part.
	local fair = capacity
	for _ = 1, 2 do
		local rest, parts = capacity - content, (wantslots > 0 or held > 0) and 1 or 0
		for i = 1, wanters do
			if useful[i] <= fair then parts = parts + 1 else rest = rest - having[i] end
		end
		fair = max(1, floor(rest / max(1, parts)))
	end

	local first -- in line, of the others
	for _, o in ipairs(line) do
		if o.least <= capacity and (not first or o.number < first.number) then first = o end
	end
	local isfirst, kept, lack = false, 0, 0
	-- stand has it stand in line, behind all who do, go on with its turn, or leave, and finds
	-- what is kept for the first in line, and what others lack who have less than their part,
	-- and a use for it.
	local function stand()
		local lacks = linesays == WAITS and leastslots > n[HELD] and leastslots <= capacity
		if not lacks then
			if n.turn == 0 or linesays == 0 then n.line, n.turn = 0, 0 end
		elseif n.line == 0 or n.turn > 0 then
			n.line, n.turn = lastinline + 1, 0
		end
		isfirst = n.line > 0 and leastslots <= capacity and (not first or n.line < first.number)
		local ahead = not isfirst and first or nil
		kept = ahead and ahead.keeps or 0
		for i = 1, wanters do
			if useful[i] <= fair and not (ahead and ahead.wanter == i) then
				lack = lack + max(0, min(lacking[i], fair - having[i]))
			end
		end
	end
	if now < from then
		n[HELD] = min(held, capacity) -- somebody may hold the rest
		first, linesays = nil, 0
		stand()
	else
		-- What it holds and is not known to have, it can only ask for.
		local more = wantslots + max(0, held - n[HELD])
		n[HELD] = min(held, n[HELD])
		local free = capacity - theirs - n[HELD]
		stand()
		if isfirst and n.turn == 0 then
			local k = max(0, min(leastslots - n[HELD], free))
			n[HELD], free, more = n[HELD] + k, free - k, more - k
			if n[HELD] >= leastslots then n.turn = 1 end
		end
		if not isfirst or n.turn > 0 then
			free = free - kept
			if contested then -- beyond its part, one at a time of what is left of the others'
				more = min(more, max(fair - n[HELD], min(1, free - lack)))
			end
			more = min(more, free)
			if more > 0 and n[HELD] + more >= leastslots then
				n[HELD] = n[HELD] + more
				if not isfirst then n.line = 0 end -- its part was of use
			end
		end
	end
	n[WANTSLOTS] = max(0, wantslots - max(0, n[HELD] - held)) -- that it has yet to get
	answer.held, answer.slots = n[HELD], n[EXPIRES]
	local free = max(0, capacity - theirs - n[HELD])
	if n.line == 0 then -- what is asked back is not to be started any more; what runs counts until it is over
		local short = lack - max(0, free - kept)
		if short > 0 then answer.held = max(min(n[HELD], fair), n[HELD] - short) end
		answer.held = min(answer.held, max(0, n[HELD] - max(0, kept - free)))
	elseif not isfirst then
		answer.held = 0
	end
	local over = theirs + n[HELD] - capacity
	if over > 0 then -- there are fewer now: who holds some keeps an equal part
		answer.held = min(answer.held, max(n[HELD] - over, min(n[HELD], floor(capacity / (holders + 1)))))
	end
	tell = tell or n[HELD] < before and contested
end

-- Slots: those of a node that is gone are free.

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

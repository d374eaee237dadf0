-- Slots: those of a node that is gone are free.

local function shareslots()
	local before = n[HELD]
	n[SLOTS], n[WANTSLOTS] = slots, wantslots
	if slots == 0 or bye then
		n[HELD] = 0
		tell = tell or before > 0
		return
	end
	local capacity, contested = min(capacity, slots), wanters > 0
	local fair = max(1, floor((capacity - content) / max(1, wanters + (wantslots > 0 and 1 or 0))))
	local lack = 0 -- what others want that have less than their part
	for i = 1, wanters do
		local l = fair - having[i]
		if l > lacking[i] then l = lacking[i] end
		if l > 0 then lack = lack + l end
	end
	if now < from then
		n[HELD] = min(held, capacity) -- somebody may hold the rest
	else
		-- What it holds and is not known to have, it can only ask for.
		local more = wantslots + max(0, held - n[HELD])
		n[HELD] = min(held, n[HELD])
		local free = capacity - theirs - n[HELD]
		if contested then -- beyond its part, one at a time of what is left of the others'
			more = min(more, max(fair - n[HELD], min(1, free - lack)))
		end
		n[HELD] = n[HELD] + max(0, min(more, free))
	end
	answer.held, answer.slots = n[HELD], n[EXPIRES]
	if n[HELD] > fair and lack > 0 then
		answer.held = max(fair, n[HELD] - lack) -- no more is to be started; what runs counts until it is over
	end
	tell = tell or n[HELD] < before and contested
end

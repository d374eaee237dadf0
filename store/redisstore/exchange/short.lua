-- The short way: a plain request, of a node that is known, for permits under one limit,
-- of which there are enough, while nothing else happens: no limit changes, nothing is
-- cooling, nobody has slots. It looks at no other node; what it has to know of them is
-- in m. Whatever is otherwise, or odd, it leaves to the long way, and has written
-- nothing. What both can do they do alike, to the byte but for m.

local function short()
	local node = 'n:' .. me
	local h = call('HMGET', KEYS[1], 'f', 'm', 'la', 'lv', 'l1', node)
	local f, m, l, r = h[1], h[2], h[5], h[6]
	if not (f and m and l and r) or #m ~= 8 * MEMBERS or #r < 156 or sub(f, 1, 40) ~= server or
		h[3] ~= newasked or h[4] ~= newversion or sub(r, 137, 156) >= seq then
		return
	end
	local layout, last, due, count, slotted, paused, gen, round, wanting, getting, sum = unpackd(MEMBERSFORMAT, m)
	local _, wanted, got, gotround, open, granted = unpackd('<I8I8I8I8I8I8', r)
	local epoch = sub(f, 25)
	if layout ~= LAYOUT or now < last or now >= due or slotted > 0 or paused > 0 or count > mostnodes or
		gen > 0 and (gen > seen or gen > 1e12 or theirepoch ~= epoch) or
		theirepoch ~= epoch and not find(epoch, '^%x+%-[%d-]+$') or
		max(wanting, getting) > count or max(sum, wanted, got, open) > 1e12 or max(round, gotround) > TOP or
		due > now + 1e13 or granted > now then
		return
	end

	-- The limit, brought up to now. When a raise counts, something is due.
	local kind, quota, per, burst, lease, transit, c, d, e, g, raise, a, b = unpackd(LIMITFORMAT, l)
	if kind > WINDOW or #l ~= 8 * (kind == SLIDING and SLIDINGLIMIT or LIMIT) or quota < 1 or quota > 1000000000 or
		burst > quota or per < 1000000 or per > LONGEST * 1000 or lease > per or transit > per or max(a, b, c, d, e, g, raise) > TOP then
		return
	end
	local width, steps, i = ceil(per / 1000) -- of a step; the uses in each; the present one's place
	if kind == SLIDING then width = ceil(per / (SEGMENTS * 1000)) end
	if kind == BUCKET then
		if debt > 0 then return end
	else
		local step = floor(now / width)
		if a > step + 1e6 then return end
		if kind == SLIDING then
			steps = {unpackd('<' .. STEPSFORMAT, l, 97)}
			for s = max(a + 1, step - SEGMENTS), step do steps[1 + s % (SEGMENTS + 1)] = 0 end
			i, b = 1 + max(a, step) % (SEGMENTS + 1), 0
			for s = 1, SEGMENTS + 1 do b = b + steps[s] end
		elseif step > a then
			b = 0
		end
		a = max(a, step)
		if b > 1e12 then return end
		if floor(granted / width) ~= floor(now / width) then open = 0 end
	end

	-- What the others want and have.
	if wanted > 0 then
		wanting = wanting - 1
	elseif gotround == round and got > 0 then
		getting = getting - 1
	end
	if gotround == round then sum = sum - got end
	local newround = floor(now / ceil(per / 1000))
	if newround ~= round then getting, sum = 0, 0 end
	if min(wanting, getting, sum) < 0 then return end

	-- What is given back, and owed.
	local back = min(returned, open)
	open, got = open - back, max(0, got - back)
	if i then
		local u = steps[i]
		steps[i] = max(0, u - back) + debt
		b = b + steps[i] - u
	elseif kind == WINDOW then
		b = max(0, b - back) + debt
	end

	-- What is granted.
	local k, usable = 0, 0
	if want > 0 then
		local least, avail, w, d, ahead = max(1, least), max(0, quota - b)
		if kind == BUCKET then
			w, d, ahead = per + lease + transit, quota + 1 - burst, max(0, a - min(CAP, max(0, now - b) * 1000))
			avail, usable = most(w, d, burst, ahead), floor(lease / 1000)
		else
			usable = (a + 1) * width - ceil(transit / 1000) - now
		end
		if avail < least or usable <= 0 then return end
		if gotround ~= newround then got, gotround = 0, newround end
		local active = wanting + getting + 1
		local chunk = ceil((avail + sum + got) / active) - got
		if chunk <= 0 then
			if kind ~= BUCKET then return end
			chunk = max(1, ceil(avail / floor((active + 2) / 3)))
		end
		k = min(want, avail, max(least, chunk))
		if k < want and (avail - k < least or kind == SLIDING and avail - k < count) then return end
		if kind == BUCKET then
			a, b = min(CAP, ahead + spread(w, d, k) + 1), max(now, b)
			if a > 9 * per then return end -- the hash may have to live longer
		elseif i then
			steps[i] = steps[i] + k
		else
			b = b + k
		end
		got, open, granted, wanting = got + k, open + k, now, wanting + 1
	elseif gotround == newround and got > 0 then
		getting = getting + 1
	end
	if gotround == newround then sum = sum + got end

	if i then
		l = sub(l, 1, 88) .. pack('<I8' .. STEPSFORMAT, a, unpack(steps, 1, SEGMENTS + 1))
	else
		l = sub(l, 1, 88) .. pack('<I8I8', a, b)
	end
	call('HSET', KEYS[1],
		'm', pack(MEMBERSFORMAT, LAYOUT, now, due, count, 0, 0, gen, newround, wanting, getting, sum),
		'l1', l,
		node, pack(NODEFORMAT, now + ttl, want, got, gotround, open, granted, 0, 0, 0, 0, k, k > 0 and now + usable or 0, 0, 0, 0, 0, 0) .. seq)
	return me .. ' ' .. KEYS[1] .. ' ' .. seq .. ' 0 ' .. epoch .. ' ' .. k .. ' ' .. usable .. ' 0 ' ..
		newversion .. ' - ' .. gen .. ' 0 0 0 0 ' .. count .. ' 0'
end

if plain == 1 then
	local reply = short()
	if reply then return reply end
end

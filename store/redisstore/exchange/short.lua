-- The short way: a plain request, of a node that is known, for permits under one limit,
-- of which there are enough, while nothing else happens: no limit changes, nothing is
-- cooling, nobody has slots. It looks at no other node; what it has to know of them is
-- in m. Whatever is otherwise, or odd, it leaves to the long way, and has written
-- nothing. What both can do they do alike, to the byte but for when something is due.

if not ARGV[3] then repeat
	local h = call('HMGET', KEYS[1], 'b', 'm', node)
	local b, m, r = h[1], h[2], h[3]
	if not (b and m and r) or #m ~= 8 * MEMBERS or #r ~= 8 * BRIEF then break end
	local start = #b - #belief + 1
	if start < BUCKETNUMBERS or find(b, belief, start, true) ~= start or not find(info, sub(b, 1, NUMBERS - 1), 1, true) then break end
	local last, due, count, gen, round, wanting, getting, sum, a, used, u = unpackd(MEMBERSFORMAT, m)
	local wanted, got, gotround, open, granted, before = unpackd('<I8I8I8I8I8I8', r, 9)
	if before >= seq or now < last or now >= due or due > now + 1e13 or gen > seen or count > MOSTNODES or
		wanting > count or getting > count or sum > 1e12 or wanted > 1e12 or got > 1e12 or open > 1e12 or used > TOP or u > 1e12 or
		round > TOP or gotround > TOP or a > TOP or granted > now then
		break
	end
	local kind, quota, per, width, late = unpackd('<I8I8I8I8I8', b, NUMBERS)
	if kind > WINDOW or quota < 1 or quota > 1000000000 or per < 1000 or per > LONGEST or width < 1 or width > per or late > width or
		start ~= (kind == BUCKET and BUCKETNUMBERS + 32 or BUCKETNUMBERS) then
		break
	end

	-- The limit, brought up to now. When a raise counts, something is due.
	local steps
	if kind == BUCKET then
		if debt > 0 then break end
	else
		local step = now / width
		step = step - step % 1
		if a > step + 1e6 or used > 1e12 then break end
		if step > a then
			if kind == SLIDING then
				local t = call('HGET', KEYS[1], 't')
				if t and #t ~= 8 * (SEGMENTS + 1) then break end
				local all = {unpackd(STEPSFORMAT, t or string.rep('\0', 8 * (SEGMENTS + 1)))}
				all[1 + a % (SEGMENTS + 1)] = u
				for s = math.max(a + 1, step - SEGMENTS), step do all[1 + s % (SEGMENTS + 1)] = 0 end
				used = 0
				for s = 1, SEGMENTS + 1 do used = used + all[s] end
				if used > 1e12 then break end
				if t or used > 0 then steps = pack(STEPSFORMAT, unpack(all, 1, SEGMENTS + 1)) end
			else
				used = 0
			end
			a, u = step, 0
		end
		if granted < step * width then open = 0 end
	end

	-- What the others want and have.
	if wanted > 0 then
		wanting = wanting - 1
	elseif gotround == round and got > 0 then
		getting = getting - 1
	end
	if gotround == round then sum = sum - got end
	local newround = now / per
	newround = newround - newround % 1
	if newround ~= round then getting, sum = 0, 0 end
	if wanting < 0 or getting < 0 or sum < 0 then break end

	-- What is given back, and owed.
	if returned > 0 then
		local back = returned
		if back > open then back = open end
		open, got = open - back, got - back
		if got < 0 then got = 0 end
		if kind == SLIDING then
			used = used - u
			u = u - back
			if u < 0 then u = 0 end
			used = used + u
		elseif kind == WINDOW then
			used = used - back
			if used < 0 then used = 0 end
		end
	end
	if kind == SLIDING then
		u, used = u + debt, used + debt
	elseif kind == WINDOW then
		u, used = 0, used + debt
	else
		u = 0
	end

	-- What is granted.
	local k, usable = 0, 0
	if want > 0 then
		local avail, w, d, ahead, pernano, burst, lease, transit = quota - used
		if kind == BUCKET then
			pernano, burst, lease, transit = unpackd('<I8I8I8I8', b, BUCKETNUMBERS)
			if burst < 1 or burst > quota or pernano > LONGEST * 1000 or lease > pernano or transit > pernano then break end
			w, d, ahead = pernano + lease + transit, quota + 1 - burst, 0
			local since = (now - used) * 1000
			if since < 0 then since = 0 elseif since > CAP then since = CAP end
			if a > since then ahead = a - since end
			avail, usable = most(w, d, burst, ahead), (lease - lease % 1000) / 1000
		else
			usable = (a + 1) * width - late - now
		end
		if avail < least or usable <= 0 then break end
		if gotround ~= newround then got, gotround = 0, newround end
		local active = wanting + getting + 1
		local chunk = (avail + sum + got) / active -- rounded up
		if chunk % 1 > 0 then chunk = chunk - chunk % 1 + 1 end
		chunk = chunk - got
		if chunk <= 0 then
			if kind ~= BUCKET then break end
			chunk = math.max(1, math.ceil(avail / math.floor((active + 2) / 3)))
		end
		if chunk < least then chunk = least end
		k = want
		if k > avail then k = avail end
		if k > chunk then k = chunk end
		if k < want and (avail - k < least or kind == SLIDING and avail - k < count) then break end
		if kind == BUCKET then
			a = math.min(CAP, ahead + spread(w, d, k) + 1)
			if used < now then used = now end
			if a > 9 * pernano then break end -- the hash may have to live longer
		else
			used = used + k
			if kind == SLIDING then u = u + k end
		end
		got, open, granted, wanting = got + k, open + k, now, wanting + 1
	elseif gotround == newround and got > 0 then
		getting = getting + 1
	end
	if gotround == newround then sum = sum + got end

	m = pack(MEMBERSFORMAT, now, due, count, gen, newround, wanting, getting, sum, a, used, u)
	r = pack(BRIEFFORMAT, now + ttl, want, got, gotround, open, granted, seq, k, k > 0 and now + usable or 0)
	if steps then
		call('HSET', KEYS[1], 'm', m, node, r, 't', steps)
	else
		call('HSET', KEYS[1], 'm', m, node, r)
	end
	return '=' .. pack('<I7I7I7I4I2', seq, gen, usable, k, count) .. ' ' .. KEYS[1] .. ' ' .. node
until true end

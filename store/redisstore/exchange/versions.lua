-- Versions: limits that are new, changed, or lost.

local tell = false -- the others, of what has changed

local setlimits
do -- Lua has room for 200 locals
	local function new(l, at)
		local c = {}
		for i = 1, LIMIT do c[i] = 0 end
		for i = 1, 6 do c[i] = l[i] end
		if c[KIND] == SLIDING then
			for i = LIMIT + 1, SLIDINGLIMIT do c[i] = 0 end
		end
		if c[KIND] ~= BUCKET then c[STEP] = floor(min(at, now) / step(c)) end
		drain(c, at)
		return c
	end

	-- raises is when a limit that is more than c counts: when no window has anything of what
	-- was granted until at.
	local function raises(c, at)
		if c[KIND] == WINDOW then return ending(c) end
		return at + ceil((c[KIND] == BUCKET and span(c) or c[PER]) / 1000)
	end

	-- numbersof sets the numbers of another limit of the same kind and per: see
	-- store.counted.set.
	local function numbersof(c, l)
		local quota, burst, lease, transit = l[QUOTA], l[BURST], l[LEASE], l[TRANSIT]
		for i = NEXT, RAISE do c[i] = 0 end
		if quota <= c[QUOTA] and burst <= c[BURST] and lease >= c[LEASE] and transit >= c[TRANSIT] then
			becomes(c, now, quota, burst, lease, transit)
			return
		end
		c[NEXT], c[NEXT + 1], c[NEXT + 2], c[NEXT + 3] = quota, burst, lease, transit
		quota, burst, lease, transit = min(quota, c[QUOTA]), min(burst, c[BURST]), max(lease, c[LEASE]), max(transit, c[TRANSIT])
		if c[KIND] == BUCKET then quota = burst - 1 + min(rest(l), rest(c)) end
		becomes(c, now, quota, burst, lease, transit)
		c[RAISE] = raises(c, max(now, lost))
	end

	-- change does, but for a bucket that was drained until a time to come: it stays so.
	local function change(c, l)
		local drained = 0
		if c[KIND] == BUCKET then drained = min(ahead(c) - depth(c), (lost - now) * 1000 + c[PER]) end
		numbersof(c, l)
		if drained > 0 then c[AHEAD], c[ASOF] = min(TOP, max(ahead(c), depth(c) + drained)), now end
	end

	-- lends is until when what c has granted may be in use.
	local function lends(c)
		if c[KIND] == BUCKET then return now + ceil((c[LEASE] + c[TRANSIT]) / 1000) end
		return (floor(now / step(c)) + 1) * step(c)
	end

	-- follow is a limit after others, whose grants are used for the last time just before
	-- lost. A full bucket is a burst: the rest of its quota comes back in a per.
	local function follow(l)
		return new(l, l[KIND] == BUCKET and lost + ceil(l[PER] / 1000) or lost - 1)
	end

	if fresh then
		for i, c in ipairs(limits) do
			local l = new(c, lost)
			if c[KIND] == BUCKET then l[AHEAD] = max(l[AHEAD], ahead(c)) end
			if c[RAISE] ~= 0 then
				for j = NEXT, NEXT + 3 do l[j] = c[j] end
				l[RAISE] = raises(l, max(now, lost))
			end
			limits[i] = l
		end
	end

	function setlimits()
		if newasked == '' or asked ~= '' and newversion <= version then return end
		local first, new_ = asked == '', {}
		for l in string.gmatch(newasked, '[^;]+') do
			local t = {}
			for d in string.gmatch(l, '%-?%d+') do t[#t + 1] = tonumber(d) end
			new_[#new_ + 1] = filled(t)
		end
		local alike = #new_ == #limits
		for i = 1, #limits do
			alike = alike and limits[i][KIND] == new_[i][KIND] and limits[i][PER] == new_[i][PER]
		end
		if not first and not alike then
			-- A grant is of all limits, and ends with the first of them.
			local ends = TOP
			for _, c in ipairs(limits) do ends = min(ends, lends(c)) end
			lost = max(lost, ends)
			put('v', string.format('%d %.0f %.0f', LAYOUT, lost, from))
		end
		for i = 1, #new_ do
			if alike then
				roll(limits[i], now)
				change(limits[i], new_[i])
			else
				limits[i] = first and new(new_[i], lost) or follow(new_[i])
			end
		end
		for i = #limits, #new_ + 1, -1 do
			limits[i] = nil
			drop('l' .. i)
		end
		if not alike then
			n[HAS] = 0
			for name, v in pairs(nodes) do
				if name ~= node and unpackd('<I8', v, 8 * HAS - 7) > 0 then
					put(name, sub(v, 1, 8 * HAS - 8) .. pack('<I8', 0) .. sub(v, 8 * HAS + 1))
				end
			end
		end
		asked, version = newasked, newversion
		tell = tell or not first
	end
end

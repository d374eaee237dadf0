-- Versions: limits that are new, changed, or lost.

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

-- change sets another limit of the same kind and per.
local function change(c, l)
	for i = NEXT, RAISE do c[i] = 0 end
	if c[KIND] == BUCKET then -- what counts now are permits: at the new pace they take as long
		local a, old = ahead(c), charged(c, 1)
		local pace = charged(l, 1)
		if pace > old and a > 0 then
			c[AHEAD], c[ASOF] = min(CAP, ceil(a * (pace / old)) + 8), max(now, c[ASOF])
		end
	end
	if l[QUOTA] <= c[QUOTA] and l[BURST] <= c[BURST] and l[LEASE] <= c[LEASE] and l[TRANSIT] >= c[TRANSIT] then
		c[QUOTA], c[BURST], c[LEASE], c[TRANSIT] = l[QUOTA], l[BURST], l[LEASE], l[TRANSIT]
		return
	end
	c[NEXT], c[NEXT + 1], c[NEXT + 2], c[NEXT + 3] = l[QUOTA], l[BURST], l[LEASE], l[TRANSIT]
	c[RAISE] = now + ceil(l[PER] / 1000)
	if c[KIND] == WINDOW then c[RAISE] = ending(c) end
	c[QUOTA] = min(c[QUOTA], l[QUOTA])
	c[BURST] = min(c[BURST], l[BURST], c[QUOTA])
end

if fresh then
	for i, c in ipairs(limits) do
		local l = new(c, lost)
		if c[RAISE] ~= 0 then
			for j = NEXT, NEXT + 3 do l[j] = c[j] end
			l[RAISE] = now + ceil(c[PER] / 1000)
		end
		limits[i] = l
	end
end

local tell = false -- the others, of what has changed

local function setlimits()
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
	for i = 1, #new_ do
		if alike then
			roll(limits[i], now)
			change(limits[i], new_[i])
		else
			limits[i] = new(new_[i], first and lost or max(now, lost))
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

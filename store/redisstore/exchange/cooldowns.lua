-- Cooldowns, whose ends only move later but for an operator's word, and the probe after
-- that of the whole key.

local answer = {granted = 0, valid = 0, again = 0, held = 0, slots = 0, probe = 0, probeends = 0}

local changedcools = {}

-- extend moves the end of a scope's cooldown to till, if it is earlier.
local function extend(scope, till, g)
	gen = max(gen, g)
	local c = cools[scope]
	if not c then
		if kept >= MAXSCOPES then
			local first
			for s, o in pairs(cools) do -- the whole key stays
				if s ~= '' and (not first or o.till < cools[first].till) then first = s end
			end
			cools[first], changedcools[first] = nil, true
			kept = kept - 1
		end
		c = {till = 0}
		cools[scope] = c
		kept = kept + 1
	end
	c.till, c.gen = max(c.till, till), g
	changedcools[scope] = true
	if scope == '' then probing, prober, probeends = true, '', 0 end
end

local function cool()
	local i = 3
	local function list(length, size)
		local all = {}
		for j = 1, length do
			all[j] = {unpack(ARGV, i + 1, i + size)}
			i = i + size
		end
		return all
	end
	local saying, knowing, clearing = list(said, 2), list(known, 3), list(cleared, 2)
	for s, c in pairs(cools) do -- what is over is forgotten; the probe stays
		if c.till + REMEMBER <= now then
			cools[s], changedcools[s] = nil, true
			kept = kept - 1
		end
	end
	local applies = theirepoch == epoch or theirepoch == '-'
	for _, k in ipairs(clearing) do
		local c = cools[k[1]]
		if c and c.till > now and c.gen <= tonumber(k[2]) and applies then
			gen = gen + 1
			c.till, c.gen, changedcools[k[1]] = now, gen, true
			if k[1] == '' then probing = false end
			tell = true
		end
	end
	for _, k in ipairs(knowing) do
		local c, left, g = cools[k[1]], tonumber(k[2]), tonumber(k[3])
		if left > 0 and (not c or c.gen < g) then
			extend(k[1], now + min(left, LONGEST), g > gen and g or gen + 1)
			answer.said = true
		end
	end
	for _, k in ipairs(saying) do
		extend(k[1], now + min(tonumber(k[2]), LONGEST), gen + 1)
		answer.said = true
	end
end

local function probe()
	local WANTED, PASSED = 1, 2 -- what a node says of it
	local c = cools['']
	if c and c.till > now then
		answer.probe, answer.probeends, answer.again = COOLING, c.till, c.till
		return
	end
	if not probing then return end
	if word == PASSED and prober == me then
		probing, prober, tell = false, '', true
		return
	end
	if prober ~= '' and probeends <= now then prober = '' end
	if prober == '' and word == WANTED and not bye then
		prober, probeends = me, now + ttl
	end
	if prober == '' then
		answer.probe = OPEN
		return
	end
	answer.probe, answer.probeends = prober == me and YOURS or OTHER, probeends
end

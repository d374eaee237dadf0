-- The arithmetic of a Bucket: see store.Limit.Charge.

local CAP = 8900000000000000 -- ns, 103 days: more than any Per, Lease and Transit together

-- spread is count*w/m, rounded down, or CAP if that is more: exact, since no product
-- is more than 2^53. count and m are at most 1e9.
local function spread(w, m, count)
	local floor = math.floor
	local q, r = floor(w / m), w % m
	local a = count * q
	if a >= 8900000000000000 then return 8900000000000000 end -- CAP, of which no upvalue is made
	local high, low = floor(count / 100000), count % 100000
	local t = high * r
	return math.min(8900000000000000, a + floor(t / m) * 100000 + floor(((t % m) * 100000 + low * r) / m))
end

-- most is how many permits, of up to burst, a schedule has room for that is ahead by so
-- much. The division finds it but for its rounding; where spread is at its CAP, the
-- first line does.
local function most(w, m, burst, ahead)
	local depth = spread(w, m, burst)
	if ahead <= 0 then return burst end
	local room = depth + 1 - ahead -- what they spread is to be less
	local k = math.max(0, math.min(burst, math.floor(room * (m / w))))
	while k > 0 and spread(w, m, k) >= room do k = k - 1 end
	while k < burst and spread(w, m, k + 1) < room do k = k + 1 end
	return k
end

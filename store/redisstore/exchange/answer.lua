-- The answer: to a request that is new, or once more to the last one.

local repeated = false
if not n then
	n = {line = 0, turn = 0}
	for i = 1, NODE do n[i] = 0 end
	count = count + 1
elseif seq < n.seq then
	return table.concat({me, KEYS[1], seq, '1'}, ' ')
elseif seq == n.seq then
	repeated = true
	answer = {granted = n[11], valid = n[12], again = n[13], held = n[14], slots = n[15], probe = n[16], probeends = n[17]}
	if answer.valid <= now then answer.granted = 0 end
	if answer.slots <= now then answer.held = 0 end
end

if not repeated then
	n[EXPIRES] = now + ttl
	setlimits()
	for _, c in ipairs(limits) do roll(c, now) end
	cool()
	shareslots()
	giveback()
	probe()
	grant()
end

local function left(at) return max(0, at - now) end

-- how many cooldowns there are to tell, and each of them; %s ends a text at a NUL
local function cooldowns(tells)
	local all = {}
	for s, c in pairs(cools) do
		if tells(s, c) then
			all[#all + 1] = string.format(' %d:', #s) .. s .. string.format(' %.0f %.0f', min(LONGEST, left(c.till)), c.gen)
		end
	end
	return string.format(' %.0f', #all) .. table.concat(all)
end

local reply = string.format('%s %s %s 0 %s %.0f %.0f %.0f %s %s %.0f %.0f %.0f %.0f %.0f %.0f',
	me, KEYS[1], seq, epoch, answer.granted, left(answer.valid), left(answer.again),
	version == '' and '0' or version, asked ~= '' and asked ~= newasked and asked or '-', gen,
	answer.probe, left(answer.probeends), answer.held, left(answer.slots), count) ..
	cooldowns(function(_, c) return theirepoch == epoch and c.gen > seen or theirepoch ~= epoch and c.till > now end)
if repeated then return reply end

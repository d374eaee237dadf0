-- Nodes: those that were silent for a TTL are gone.

local SEEN = 11 -- numbers: what it has to know of the others
local SEENFORMAT = '<I8I8I8I8I8I8I8I8I8I8I8'
local EXPIRES, WANTS, GOT, ROUND, HAS, AT, TOLD, SLOTS, HELD, WANTSLOTS, GRANTED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
local COOLING, OPEN, YOURS, OTHER = 1, 2, 3, 4

local mine = nodes[me]
for name, v in pairs(nodes) do
	if #v < NODE * 8 + 20 then garbage('n:' .. name) end
	local a, b, c, d, e, f, g, h, i, j, k = unpackd(SEENFORMAT, v)
	if max(a, b, c, d, e, f, g, h, i, j, k) > TOP then garbage('n:' .. name) end
	if a > now then
		nodes[name] = {a, b, c, d, e, f, g, h, i, j, k}
	else
		drop('n:' .. name)
		nodes[name] = nil
		count = count - 1
		if prober == name then prober, probeends = '', 0 end
	end
end
if prober ~= '' and not nodes[prober] then prober, probeends = '', 0 end

local n = nodes[me]
if n then
	n = numbers(NODEFORMAT, mine, NODE, 'n:')
	n.seq = sub(mine, NODE * 8 + 1, NODE * 8 + 20)
	if not find(n.seq, '^%d+$') or n.seq > MOST or n[11] > 1000000000 or n[12] > now + LONGEST or n[13] > now + 10 * LONGEST or
		n[14] > 1048576 or n[15] > now + 2 * BACK or n[16] > OTHER or n[17] > now + LONGEST then
		garbage('n:')
	end
	nodes[me] = n
end
if not n and count >= mostnodes or count > mostnodes then return redis.error_reply('TOOMANY nodes under the key') end

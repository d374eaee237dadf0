-- Nodes: those that were silent for a TTL are gone. Of the others there are sums, made
-- in one pass: what is done once for each node is what an exchange takes.

local NODE = 17 -- numbers, of one that is not brief
local NODEFORMAT = '<I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8'
local EXPIRES, WANTS, GOT, ROUND, HAS, AT, TOLD, SLOTS, HELD, WANTSLOTS, GRANTED = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
local COOLING, OPEN, YOURS, OTHER = 1, 2, 3, 4
local TURNS = 1073741824 -- 2^30: what more of wants is says whose turn it is, and what for; see grants.lua

-- Of the others: when the first is gone; how many want permits; by round, how many that
-- want none got some, and how many all got; when those are to come who were told to come
-- later, and until when one may yet come, for permits that it was refused before, or for more of what it
-- has just been granted; how many are kept for whose turn it is; whether there are slots,
-- the fewest that one says there are, how many they and how many of them hold, and those who want no more, and
-- of those who do, what they want and hold, and how many are of use; who is in line for
-- them, and the last of their numbers.
local earliest, asking, gets, gots, promises, expected, keeping = TOP, 0, {}, {}, {}, 0, 0
local slotted, capacity, theirs, holders, content, wanters, lacking, having, useful = false, 1048576, 0, 0, 0, 0, {}, {}, {}
local line, lastinline = {}, 0

local mine = nodes[node]
do
	local SEENFORMAT = '<I8I8I8I8I8I8I8I8I8I8I8' -- what has to be known of the others
	local WAY = 250000 -- how late one may come that has a turn
	local MOMENT = 5000 -- how late a node may come that was told when to come again
	for name, v in pairs(nodes) do
		local a, b, c, d, e, f, g, h, i, j, k
		if #v >= NODE * 8 + 20 then
			a, b, c, d, e, f, g, h, i, j, k = unpackd(SEENFORMAT, v)
		elseif #v >= BRIEF * 8 then
			a, b, c, d, e, f, g, k = unpackd(BRIEFFORMAT, v)
			g, h, i, j = 0, 0, 0, 0
		else
			garbage(name)
		end
		if a > TOP or b > TOP or c > TOP or d > TOP or e > TOP or f > TOP or g > TOP or h > TOP or i > TOP or j > TOP or k > TOP then
			garbage(name)
		end
		if a > now then
			if name ~= node then
				if a < earliest then earliest = a end
				if c > 0 then gots[d] = (gots[d] or 0) + c end
				if b > 0 then
					asking = asking + 1
				elseif c > 0 then
					gets[d] = (gets[d] or 0) + 1
				end
				if b >= TURNS and g + WAY > now then keeping = max(keeping, b - TURNS) end
				if g > now then
					if b < TURNS then promises[#promises + 1] = g end
				elseif g > 0 then
					expected = max(expected, g + MOMENT)
				elseif k > 0 and k < b then
					expected = max(expected, f + MOMENT)
				end
				if h > 0 or i > 0 or j > 0 then
					slotted, theirs = true, theirs + i
					if i > 0 then holders = holders + 1 end
					if h > 0 and h < capacity then capacity = h end
					if j > 0 then
						wanters = wanters + 1
						lacking[wanters], having[wanters], useful[wanters] = j, i, 0
					else
						content = content + i
					end
					if #v == NODE * 8 + 44 then
						local least, number, turn = unpackd('<I8I8I8', v, NODE * 8 + 21)
						if least > 2097152 or number > TOP then garbage(name) end
						if j > 0 then useful[wanters] = least end
						if number > 0 then
							lastinline = max(lastinline, number)
							if a - ttl / 2 > now then -- else it has left, it seems
								line[#line + 1] = {number = number, keeps = turn == 0 and max(0, least - i) or 0, least = least, wanter = j > 0 and wanters or 0}
							end
						end
					end
				end
			end
		else
			drop(name)
			nodes[name] = nil
			count = count - 1
			if 'n:' .. prober == name then prober, probeends = '', 0 end
		end
	end
end
if prober ~= '' and not nodes['n:' .. prober] then prober, probeends = '', 0 end

local n = nodes[node]
if n then
	if #mine >= NODE * 8 + 20 then
		n = numbers(NODEFORMAT, mine, NODE, 'n:')
		n.seq, n.line, n.turn = sub(mine, NODE * 8 + 1, NODE * 8 + 20), 0, 0
		if #mine == NODE * 8 + 44 then n.line, n.turn = unpackd('<I8I8', mine, NODE * 8 + 29) end
	else
		local o = numbers(BRIEFFORMAT, mine, BRIEF, 'n:')
		n = {o[1], o[2], o[3], o[4], o[5], o[6], 0, 0, 0, 0, o[8], o[9], 0, 0, 0, 0, 0}
		n.seq, n.line, n.turn = digits(o[7]), 0, 0
	end
	if not find(n.seq, '^%d+$') or n.seq > MOST or n[11] > 1000000000 or n[12] > now + LONGEST or n[13] > now + 10 * LONGEST or
		n[14] > 1048576 or n[15] > now + 2 * BACK or n[16] > OTHER or n[17] > now + LONGEST then
		garbage('n:')
	end
end
if not n and count >= MOSTNODES or count > MOSTNODES then return redis.error_reply('TOOMANY nodes under the key') end

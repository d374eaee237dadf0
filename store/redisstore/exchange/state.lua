-- The long way begins: all that is there.

local MOST = '18446744073709551615' -- 2^64-1, for texts of 20 digits
local MAXSCOPES = 64 -- store.MaxScopes
local REMEMBER = 900000000 -- how long a cooldown that was cleared is told
local BACK = 3600000000 -- a clock that goes back further has been wrong

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

-- digits is n as a text of 20 digits.
local function digits(n) return string.format('%020.0f', n) end

local bound, me = unpackd('<I8', ARGV[1], 57), sub(node, 3)
local theirepoch, newversion, newasked = string.match(belief, '^(%S+) (%d+) (.*)$')
newversion = string.rep('0', 20 - #newversion) .. newversion -- such texts compare as numbers
local word, slots, held, wantslots, leastslots, linesays, leaves, said, known, cleared = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
if ARGV[3] then
	word, slots, held, wantslots, leastslots, linesays, leaves, said, known, cleared, seq = unpackd('<I8I8I8I8I8I8I8I8I8I8c20', ARGV[3])
else
	seq = digits(seq)
end
local bye = leaves == 1

local server
do
	local _, at = find(info, 'master_replid:', 1, true)
	if not at then return redis.error_reply('NOFENCE the server does not tell its master_replid') end
	server = sub(info, at + 1, at + 40)
end

local function garbage(what) error({err = 'GARBAGE in the field ' .. what}) end

local function str(n) return string.format('%.0f', n) end

local function int(s, what)
	local n = #s <= 16 and find(s, '^%d+$') and tonumber(s)
	if not n or n > TOP then garbage(what) end
	return n
end

-- numbers returns the n numbers that were packed.
local function numbers(format, v, n, what)
	local r = {unpackd(format, v)}
	r[n + 1] = nil -- where it ends
	if max(unpack(r)) > TOP then garbage(what) end
	return r
end

local raw = call('HGETALL', KEYS[1])
local w = call('HMGET', KEYS[2], 'f', 'b', 'l', 'e')
local witness = {f = w[1], e = w[4]}
if w[1] then
	if not (w[2] and w[3] and w[4]) then garbage('of the witness') end
	witness.b, witness.l = int(w[2], 'b of the witness'), int(w[3], 'l of the witness')
end

local h, nodes, cools, count, kept = {}, {}, {}, 0, 0 -- nodes by the names of their fields
for i = 1, #raw, 2 do
	local name, v = raw[i], raw[i + 1]
	local kind = sub(name, 1, 2)
	if kind == 'n:' then
		nodes[name] = v
		count = count + 1
	elseif kind == 'c:' then
		cools[sub(name, 3)] = v
		kept = kept + 1
	else
		h[name] = v
	end
end
local layout, lost, from = 0, 0, 0
if h.v then
	layout = int(string.match(h.v .. ' ', '^(%d+) ') or h.v, 'v')
	if layout > LAYOUT then
		return redis.error_reply('LAYOUT the hash has layout ' .. layout .. ', written by a newer version of the library')
	end
end

local set, del = {}, {} -- what changes of the hash
local function put(name, v) set[#set + 1] = name; set[#set + 1] = v end
local function drop(name) del[#del + 1] = name end

local old = h.v and layout < LAYOUT
if old then -- it cannot be read: all of it is lost
	for i = 1, #raw, 2 do drop(raw[i]) end
	h, nodes, cools, count, kept = {}, {}, {}, 0, 0
elseif h.v then
	local l, f = string.match(h.v, '^%d+ (%d+) (%d+)$')
	if not l then garbage('v') end
	lost, from = int(l, 'v'), int(f, 'v')
end
local fence, version, asked = h.f, h.lv or '', h.la or ''
if h.b then
	local at = #h.b >= BUCKETNUMBERS and unpackd('<I8', h.b, NUMBERS) == BUCKET and BUCKETNUMBERS + 32 or BUCKETNUMBERS
	local e, v, l = string.match(sub(h.b, at), '^(%S+) (%d+) (.+)$')
	if not e or #v > 20 then garbage('b') end
	fence, version, asked = sub(h.b, 15, NUMBERS - 1) .. sub(e, 17), string.rep('0', 20 - #v) .. v, l
end
local found = fence
for scope, v in pairs(cools) do
	if #v ~= 16 or #scope > 256 or kept > MAXSCOPES then garbage('c:') end
	local c = numbers('<I8I8', v, 2, 'c:')
	cools[scope] = {till = c[1], gen = c[2]}
end

-- Lost state: a hash is believed if this server wrote it, and is there as it was
-- written, since it is one key. Of one that is absent the witness knows until when it
-- may have been in use: it says which server it is of, when what that server has
-- began, and how many keys were evicted.

local renew = witness.f ~= server
local evicted
if renew or #raw == 0 then
	evicted = string.match(call('INFO', 'stats'), 'evicted_keys:(%d+)') or '0'
end
if renew then
	witness = {f = server, b = now, l = now + bound, e = evicted}
elseif #raw == 0 and witness.e ~= evicted then -- it may be one of those
	witness.l, witness.e, renew = now + bound, evicted, true
end

local last, gen, counts = 0, 0 -- counts: under the first limit
if h.v or h.m then
	if not h.m or #h.m ~= 8 * MEMBERS then garbage('m') end
	local m = numbers(MEMBERSFORMAT, h.m, MEMBERS, 'm')
	last, gen = m[1], m[4]
	counts = {m[9], m[10], m[11]}
end
local back = last > now + BACK and last - now or 0
local ours = fence and sub(fence, 1, 40) == server and find(fence, '^%-[%d-]+$', 41)
local fresh = not ours or back > 0 or not h.v

local probing, prober, probeends = false, '', 0
if h.p then
	local ends, name = string.match(h.p, '^(%d+) (%w*)$')
	if not ends then garbage('p') end
	probing, prober, probeends = true, name, int(ends, 'p')
end

do
	-- No two fences are the same, so that who was told the one of a hash that is gone does not
	-- take that of the next for it. They begin with began, and go on with --now; or, when it
	-- was found that there was another hash, with -now, or -b--now if that was before b. What
	-- comes before -- they have in common that one event has made new, which is told of once.
	-- Those of earlier builds may have nothing after began.
	local began = server .. '-' .. str(witness.b)

	-- Who was told an epoch of this server's has seen the hash: if it is absent, or was made
	-- since, by somebody who had not, then it was deleted by hand, and is lost as well.
	-- That may be an epoch of an earlier witness, since one may be evicted alone, or all be
	-- emptied: it does not count if somebody has said since that nothing was used.
	-- Each such loss is found once, as it ends the epoch.
	local current = find(theirepoch .. '-', sub(began, 25) .. '-', 1, true) == 1
	local earlier = not current and witness.l > 0 and find(theirepoch, sub(server, 25) .. '-', 1, true) == 1
	local deleted = (current or earlier) and (#raw == 0 or
		ours and sub(fence, 25) ~= theirepoch and (find(fence, '^%-%d+$', 41) or find(fence, '^%-%d+%-%-', 41)))
	fresh = fresh or deleted
	now = max(now, last - back)
	if fresh then
		local lent = lost - back
		lost = witness.l
		fence = began
		if ours or old or deleted then -- the clock, the layout, or a hand: found now
			lost = now + bound
			fence = fence .. '-' .. (earlier and str(witness.b) .. '--' or '') .. str(now)
		else
			fence = fence .. '--' .. str(now)
		end
		from = lost + ttl
		lost = max(lost, lent) -- what other limits have granted goes on
		prober, probeends = '', 0
		for name in pairs(nodes) do drop(name) end
		nodes, count = {}, 0
		for _, c in pairs(cools) do c.till = max(0, c.till - back) end
		put('v', string.format('%d %.0f %.0f', LAYOUT, lost, from))
	end
end
local epoch = sub(fence, 25)

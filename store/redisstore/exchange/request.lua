-- One item of one node about one key: what store.Store says of an item, and
-- store.Memory does. The files of this folder are one script, in the order of
-- script.go.
--
-- KEYS: 1 the hash of the key, 2 the witness of its slot.
-- ARGV: 1 numbers, with seq and version of 20 digits among them, then node, a space,
-- and epoch or -; 2 the limits as asked, 3 filled in. Then of each cooldown that is said
-- its scope and length, of each that is known its scope, length and generation, of each
-- that is cleared its scope.
--
-- Times are microseconds by the server's clock, lengths of a limit nanoseconds. All
-- are integers from 0 up to 2^53-1, which a double holds exactly; packed, each has 8
-- bytes. Nothing is written before all that is needed has been read: an error leaves
-- everything as it was.

local LAYOUT = 2
local TOP = 9007199254740991 -- 2^53-1
local CAP = 8900000000000000 -- ns, 103 days: more than any Per, Lease and Transit together
local LONGEST = 2678400000000 -- store.MaxCool, and the longest Per
local SEGMENTS = 32
local SLIDING, BUCKET, WINDOW = 0, 1, 2

-- m: layout, last time, when something is due, nodes, those with slots, whether there
-- is a cooldown or probe, generation; then of a round the nodes that want permits,
-- those that want none and got some, and how many all got. A hash of a later layout
-- has an m that begins with its number, or none.
local MEMBERS = 11
local MEMBERSFORMAT = '<I8I8I8I8I8I8I8I8I8I8I8'

-- n:<node>: expires, wanted, got, round of got, open, granted at, told to come at,
-- slots, held, slots wanted, and then the answer to seq: granted, usable until, come
-- again at, held, slots until, probe, its end. Then seq.
local NODE = 17
local NODEFORMAT = '<I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8'

-- l<i>: kind, quota, per, burst, lease, transit, then the raised quota, burst, lease
-- and transit with the time from which they count, then what is taken: of a Bucket how
-- far its schedule was ahead of which time, of others the step and the uses in it and
-- in those before it.
local LIMIT, SLIDINGLIMIT = 13, 45
local LIMITFORMAT = '<I8I8I8I8I8I8I8I8I8I8I8I8I8'
local STEPSFORMAT = 'I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8'

local floor, ceil, min, max, sub, find = math.floor, math.ceil, math.min, math.max, string.sub, string.find
local call, pack, unpackd = redis.call, struct.pack, struct.unpack

local plain, ttl, mostnodes, want, least, returned, debt, seen, seq, newversion =
	unpackd('<I8I8I8I8I8I8I8I8c20c20', ARGV[1])
local space = find(ARGV[1], ' ', 177, true)
local me, theirepoch, newasked = sub(ARGV[1], 177, space - 1), sub(ARGV[1], space + 1), ARGV[2]

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- A server takes another replication id when it starts, and when it becomes the
-- primary: what it wrote under this one is whole, or gone. The find is plain, since a
-- pattern takes longer than all the rest.
local info = call('INFO', 'replication')
local _, at = find(info, 'master_replid:', 1, true)
if not at then return redis.error_reply('NOFENCE the server does not tell its master_replid') end
local server = sub(info, at + 1, at + 40)

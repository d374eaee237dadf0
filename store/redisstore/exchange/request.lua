-- One item of one node about one key: what store.Store says of an item, and
-- store.Memory does. The files of this folder are one script, in the order of
-- script.go.
--
-- KEYS: 1 the hash of the key, 2 the witness of its slot.
-- ARGV: 1 numbers, then the name of the node's field; 2 what the node believes: epoch or
-- -, version, the limits as asked. A request that is not plain also has 3 numbers, with
-- seq of 20 digits after them. Then of each cooldown that is said its scope and length, of
-- each that is known its scope, length and generation, of each that is cleared its scope and
-- generation.
--
-- Times are microseconds by the server's clock, lengths of a limit nanoseconds. All
-- are integers from 0 up to 2^53-1, which a double holds exactly; packed, each has 8
-- bytes. Nothing is written before all that is needed has been read: an error leaves
-- everything as it was.
--
-- Up to the short way's end it is written for speed. What costs most there are strings
-- that are made, of which each byte is hashed, numbers that become text, commands,
-- functions that are called, and functions that are made.

local LAYOUT = 4
local MOSTNODES = 1024 -- as in store.go
local TOP = 9007199254740991 -- 2^53-1
local LONGEST = 2678400000000 -- store.MaxCool, and the longest Per
local SLIDING, BUCKET, WINDOW = 0, 1, 2

-- m: last time, when something is due, nodes, generation; then of a round its number,
-- the nodes that want permits, those that want none and got some, and how many all got;
-- then what is taken under the first limit: of a Bucket how far its schedule was ahead
-- of which time, of others the step and the uses that count, and of a Sliding those of
-- this step. When there is a cooldown, a probe or a slot, something is always due.
local MEMBERSFORMAT, MEMBERS = '<I8I8I8I8I8I8I8I8I8I8I8', 11

-- n:<node>: expires, wanted, got, round of got, open, granted at, and then, of one to
-- which no more can be said, seq, granted, usable until. Of another: told to come at,
-- slots, held, slots wanted, and the answer to seq: granted, usable until, come again
-- at, held, slots until, probe, its end; then seq of 20 digits, and, of one that waits for
-- slots, how many are of use, its number in the line for them, and whether it has its turn.
local BRIEFFORMAT, BRIEF = '<I8I8I8I8I8I8I8I8I8', 9

-- v: the layout, until when what is lost, or was granted under limits of another shape,
-- may be in use, and from when slots are handed out. It begins with the layout in all of
-- them.

-- b, if there is one limit: master_replid: and the id; kind, quota, and in microseconds
-- per, step and transit; of a Bucket also per, burst, lease and transit; then what a node
-- has to believe: epoch, version, and the limit as asked. If there is none, or are several,
-- there are f, the id and the epoch's end, lv, the version in 20 digits, and la, the limits.
local NUMBERS, BUCKETNUMBERS = 55, 95 -- where they begin

-- l<i>: kind, quota, per, burst, lease, transit, then the raised quota, burst, lease
-- and transit with the time from which they count; l1 is left out beside a b if it would
-- be as asked. Those after the first have what is taken, too: of a Bucket how far its
-- schedule was ahead of which time, of others the step, and the uses in it or, of a
-- Sliding, in each. t is the uses of a first Sliding in each step but this one; when it is
-- left out there are none.
local CONSTANTS, SEGMENTS = 11, 32
local STEPSFORMAT = '<I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8I8'

local call, pack, unpackd, sub, find = redis.call, struct.pack, struct.unpack, string.sub, string.find

local ttl, want, least, returned, debt, seen, seq = unpackd('<I8I8I8I8I8I8I8', ARGV[1])
local node, belief = sub(ARGV[1], 65), ARGV[2]

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- A server takes another replication id when it starts, and when it becomes the
-- primary: what it wrote under this one is whole, or gone. The finds are plain, since a
-- pattern takes longer than all the rest.
local info = call('INFO', 'replication')

-- End a lease's attempt and take the first candidate row that fits, under the same lease and at the same instant.
--
-- KEYS: leases, ledger, the lease, its tombstone, then the rows' scopes. ARGV: now, the lease's ttl in ms, 1 where the attempt ended
-- in capacity, then the rows. The reply is that of acquire.lua. Where no row fits, the lease keeps what the whole request holds.

local OF_REQUEST = 0

local id = sub(KEYS[3], #PREFIX + 7)
reap()
local old = read_lease(id)
if not old then
  flush()
  return encode({SPENT, now, 0, {}, {}})
end
if ARGV[3] ~= '1' then post_all(old, true, nil) end

-- What the lease has: by the row it leaves, and by rows before that.
local prior, order = {}, {}
local function has(key, dim, claim)
  prior[key] = prior[key] or {}
  prior[key][dim] = claim
  order[#order + 1] = {key, dim}
end
local n = 0
for g, group in ipairs(old.row) do
  for c = FIRST, #group, CHARGE do
    n = n + 1
    has(old.keys[g], group[c], {taken = old.taken[n], posted = old.posted[n], group = group, c = c, bucket = old.buckets[n]})
  end
end
for i = 1, #old.past, 3 do has(old.past[i], old.past[i + 1], {taken = 0, posted = old.past[i + 2]}) end

local reply, new = choose(prior)
local granted = new ~= nil
new = new or {keys = {}, taken = {}, posted = {}, row = {}}
new.past = {}

local function keep(key, claim)
  if new.keys[#new.keys] ~= key then
    new.keys[#new.keys + 1], new.row[#new.row + 1] = key, {{}}
  end
  local group = new.row[#new.row]
  group[1][#group[1] + 1] = claim.group[claim.c]
  for offset = 0, CHARGE - 1 do group[#group + 1] = claim.group[claim.c + offset] end
  new.taken[#new.taken + 1], new.posted[#new.posted + 1] = claim.taken, claim.posted
end

-- What the new row does not charge: let go of, unless the whole request holds it and goes on without a row; never forget what it posted.
for _, place in ipairs(order) do
  local key, dim = place[1], place[2]
  local claim = prior[key][dim]
  if claim and claim.group and not granted and claim.group[claim.c + REACH] == OF_REQUEST then
    keep(key, claim)
  elseif claim then
    if claim.bucket then hold(claim.bucket, -claim.taken) end
    if claim.posted > 0 then
      for _, value in ipairs({key, dim, claim.posted}) do new.past[#new.past + 1] = value end
    end
  end
end
if not granted then new.packed_row = encode(new.row) end

for _, key in ipairs(new.keys) do scopes[key].leases = scopes[key].leases + 1 end
for _, key in ipairs(old.keys) do leave(scopes[key]) end
new.ttl, new.used, new.grant, new.opened = tonumber(ARGV[2]), old.used, old.grant, old.opened
write_lease(id, new)
flush()
return reply

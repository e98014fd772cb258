-- What a lease has when it is given another row: its claims taken over or let go of. Stands behind ends.lua and rows.lua.

-- A row with nothing but what the caller itself is charged.
local function own_part(asked)
  local row, keys, groups, n = {}, {}, {}, 0
  for g, group in ipairs(asked.row) do
    if group[OWN] == 1 then
      n = n + 1
      row[n], keys[n], groups[n] = group, asked.keys[g], asked.groups[asked.at + g]
    end
  end
  return {row = row, groups = groups, at = 0, estimate = asked.estimate, keys = keys, pool = '', seat = ''}
end

-- What a lease has: by the row that it leaves, and by rows before that; and the order of both.
local function claims_of(lease)
  local prior, order, n = {}, {}, 0
  local function has(key, dim, claim)
    prior[key] = prior[key] or {}
    prior[key][dim] = claim
    order[#order + 1] = {key, dim}
  end
  for g, group in ipairs(lease.row) do
    for i, dim in ipairs(group[DIMS]) do
      n = n + 1
      has(lease.keys[g], dim, {
        taken = lease.taken[n], posted = lease.posted[n], group = group, c = FIRST + (i - 1) * CHARGE, bucket = lease.buckets[n],
      })
    end
  end
  for i = 1, #lease.past, 3 do has(lease.past[i], lease.past[i + 1], {taken = 0, posted = lease.past[i + 2]}) end
  return prior, order
end

-- Put `new` in the place of `old`, whose remaining claims are let go of; `keeps` says that what the whole request holds goes on. What
-- was posted is never forgotten.
local function replace_lease(old, new, prior, order, keeps)
  local function keep(key, dim, claim)
    if new.keys[#new.keys] ~= key then
      new.keys[#new.keys + 1], new.row[#new.row + 1] = key, {{}, claim.group[REACH], claim.group[OWN]}
    end
    local group = new.row[#new.row]
    group[DIMS][#group[DIMS] + 1] = dim
    for offset = 0, CHARGE - 1 do group[#group + 1] = claim.group[claim.c + offset] end
    new.taken[#new.taken + 1], new.posted[#new.posted + 1] = claim.taken, claim.posted
  end
  for _, place in ipairs(order) do
    local key, dim = place[1], place[2]
    local claim = prior[key][dim]
    if claim and claim.group and keeps and claim.group[REACH] == OF_REQUEST then
      keep(key, dim, claim)
    elseif claim then
      if claim.bucket then hold(claim.bucket, -claim.taken) end
      if claim.posted > 0 then
        for _, value in ipairs({key, dim, claim.posted}) do new.past[#new.past + 1] = value end
      end
    end
  end
  settle_in(new, old)
  for _, key in ipairs(old.keys) do leave(scopes[key]) end
end

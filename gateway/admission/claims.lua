-- What a lease has when it is given another row: its claims taken over or let go of. Stands behind ends.lua and rows.lua.

-- The number of the charge that takes a slot of the row's deployment.
local function slot_of(row)
  local n = 0
  for _, group in ipairs(row) do
    for c = FIRST, group.last, CHARGE do
      if group[c + UNIT] == SLOT and group[REACH] == OF_DEPLOYMENT then return n end
      n = n + 1
    end
  end
  return 0
end

-- A row with nothing but what the caller itself is charged.
local function own_part(asked)
  local row, keys, n = {}, {}, 0
  for g, group in ipairs(asked.row) do
    if group[OWN] == 1 then
      n = n + 1
      row[n], keys[n] = group, asked.keys[g]
    end
  end
  return {row = row, estimate = asked.estimate, keys = keys, pool = '', seat = ''}
end

-- What a lease has: by the row that it leaves, and by rows before that; and the order of both.
local function claims_of(lease)
  local prior, order, n = {}, {}, 0
  local function has(key, place, claim)
    prior[key] = prior[key] or {}
    prior[key][place] = claim
    order[#order + 1] = {key, place}
  end
  for g, group in ipairs(lease.row) do
    for c = FIRST, group.last, CHARGE do
      n = n + 1
      has(lease.keys[g], group[c], {taken = lease.taken[n], posted = lease.posted[n], group = group, c = c, scope = lease.scopes[g]})
    end
  end
  for i = 1, #lease.past, 3 do has(lease.past[i], lease.past[i + 1], {taken = 0, posted = lease.past[i + 2]}) end
  return prior, order
end

-- Put `new` in the place of `old`, whose remaining claims are let go of; `keeps` says that what the whole request holds goes on. What
-- was posted is never forgotten.
local function replace_lease(old, new, prior, order, keeps)
  local texts, windows = {}, {}
  local function keep(key, claim)
    if new.keys[#new.keys] ~= key then
      local scope = scopes[key]
      new.keys[#new.keys + 1], new.scopes[#new.scopes + 1], scope[LEASES] = key, scope, scope[LEASES] + 1
      texts[#new.keys] = to_bytes('dd', claim.group[REACH], claim.group[OWN])
    end
    local group, c = claim.group, claim.c
    texts[#new.keys] = texts[#new.keys] .. sub(group.text, 8 * c - 7, 8 * (c + CHARGE - 1))
    windows[#new.keys] = sub(group.text, 8 * group.last + 1)
    new.taken[#new.taken + 1], new.posted[#new.posted + 1] = claim.taken, claim.posted
  end
  for _, at in ipairs(order) do
    local key, place = at[1], at[2]
    local claim = prior[key][place]
    if claim and claim.group and keeps and claim.group[REACH] == OF_REQUEST then
      keep(key, claim)
    elseif claim then
      if claim.scope then hold(claim.scope, place, -claim.taken) end
      if claim.posted > 0 then
        for _, value in ipairs({key, place, claim.posted}) do new.past[#new.past + 1] = value end
      end
    end
  end
  for g, window in ipairs(windows) do texts[g] = texts[g] .. window end
  if keeps then new.row = groups_of(texts, 0, #texts) end
  for _, key in ipairs(old.keys) do leave(scopes[key]) end
  new.ttl, new.used, new.grant, new.opened, new.noted = old.ttl, old.used, old.grant, old.opened, old.noted
end

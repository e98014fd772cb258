-- A row for a request, now or in its turn: for the scripts that are asked about rows. Stands behind core.lua, rows.lua and `open_room`.

local OVER_LIMIT = 2

local function said(lease)
  if waits(lease) or lease.grant == '' then return encode({QUEUED, now, 0, {}, {}, 0}) end
  return lease.grant
end

-- 1 where there is something to be said of the upstream that a lease has.
local function watched(lease)
  return condition_of(decode(lease.seat)[3]) and 1 or 0
end

-- Test the rows in order and commit the first that fits. Returns what was found: the lease that it makes, if one fitted, and else the
-- rows of the last one's pool that may be waited for, by somebody of so much patience.
local function choose(rows, prior, most)
  local refusals, levels, tested, waiting = {}, {}, 0, {}
  for place, asked in ipairs(rows) do
    local index, buckets = place - 1, open_row(asked.row, asked.keys, 0)
    local refusal, ends, patience = refusal_of(index, asked, buckets, prior)
    local pool = known_pool(asked.pool)
    if not refusal and pool and queue().stands_before(pool, asked.precedence) then
      refusal, ends, patience = {index, slot_of(asked.row), -1, LIMIT}, false, 0
    end
    if not refusal then
      local lease = commit(asked, buckets, prior)
      if pool then queue().count(pool, asked.precedence) end
      return {lease = lease, asked = asked, index = index, levels = levels_of(asked.row, buckets), refusals = refusals, waiting = {}}
    end
    for i = 1, 4 do refusals[#refusals + 1] = refusal[i] end
    levels, tested = levels_of(asked.row, buckets), index
    if ends then return {tested = tested, levels = levels, refusals = refusals, waiting = {}} end
    local in_its_pool = asked.pool ~= '' and asked.pool == rows[#rows].pool and asked.precedence ~= OVER_LIMIT
    if in_its_pool and patience and patience <= most then
      waiting[#waiting + 1] = {index, asked}
    end
  end
  return {tested = tested, levels = levels, refusals = refusals, waiting = waiting}
end

-- Find a row for a request now, or let it wait for one: under `old`, or as the new lease `id` where that is nil. `wait` is packed:
-- {org, worker, patience in ms, most waiters, most of an org}; '' does not wait. Returns the reply, and the lease that it makes.
local function serve(id, old, ttl, wait)
  local rows, prior, order, seen = rows_asked(), nil, {}, {}
  for _, asked in ipairs(rows) do
    if not seen[asked.pool] then dispatch(asked.pool) end
    seen[asked.pool] = true
  end
  if old then prior, order = claims_of(old) end
  local before = old or {keys = {}, ttl = ttl, used = '', grant = '', opened = ARGV[3], noted = 0}
  local bounds = wait ~= '' and decode(wait)
  local found = choose(rows, prior, bounds and bounds[3] or 0)
  if found.lease then
    replace_lease(before, found.lease, prior, order, false)
    found.lease.ttl = ttl
    local watched = conditions[found.asked.deployment] and queue().ask(id, found.asked.deployment) or 0
    return encode({GRANTED, now, found.index, found.levels, found.refusals, watched}), found.lease
  end
  local refused = {REFUSED, now, found.tested, found.levels, found.refusals, 0}
  if not bounds or #found.waiting == 0 then return encode(refused), nil, prior, order end
  local asked = found.waiting[1][2]
  local q, precedence, org = queue(), asked.precedence, bounds[1]
  local pool = q.pool_of(asked.pool)
  local ahead, expected, open = q.entry(pool, precedence, bounds)
  if not open then
    local last = #found.refusals - 1
    if found.refusals[last] == -1 and expected > 0 then found.refusals[last] = expected end
    return encode(refused), nil, prior, order
  end
  local own = own_part(asked)
  local lease, offered = commit(own, open_row(own.row, own.keys, 0), prior), {}
  replace_lease(before, lease, prior, order, false)
  for i, each in ipairs(found.waiting) do
    offered[i] = {each[1], each[2].packed, each[2].figures, each[2].keys, each[2].seated}
  end
  lease.ttl, lease.waiter = ttl, {asked.pool, precedence, org, bounds[2], offered}
  write_lease(id, lease, q.WAITER_TTL_MS)
  q.join(pool, precedence, org, id, old ~= nil)
  dispatch(asked.pool)
  lease = read_lease(id)
  if lease.turn < 0 then return encode({QUEUED, now, ahead, found.levels, found.refusals, 0}), lease end
  local index = lease.turn
  lease.turn = -1
  return encode({GRANTED, now, index, levels_of(lease.row, lease.buckets), found.refusals, watched(lease)}), lease
end

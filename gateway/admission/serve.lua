-- A row for a request, now or in its turn: for the scripts that are asked about rows. Stands behind core.lua, rows.lua and `open_room`.

local OVER_LIMIT = 2

-- The reply to a request with budgets of which nothing is known, nil where there are none: they stand first in each row, one a scope, and
-- are the same in all.
local function unseeded()
  local missing, groups = {}, tonumber(sub(ARGV[FIRST_ROW] or '00', 2, 2), 16)
  for g = 1, groups do
    local key = KEYS[FIRST_KEY + g]
    if not is_budget(key) then break end
    scopes[key] = scopes[key] or scope_of(call('GET', key))
    if scopes[key][SEEDED] == 0 then missing[#missing + 1] = g - 1 end
  end
  return missing[1] and encode({UNSEEDED, now, 0, missing, {}, 0})
end

-- Test the rows in order and commit the first that fits; waiters whose pool a row is in come before it. Returns what was found: the
-- lease that it makes, if one fitted, and else the rows of the last one's pool that may be waited for, by somebody of so much patience.
local function choose(prior, most)
  local base, arg, index, refusals, tried, fits = FIRST_KEY, FIRST_ROW, 0, {}, {}, {}
  while arg <= #ARGV do
    local asked = row_of(ARGV[arg], ARGV[arg + 1], ARGV, arg + 1, KEYS, base)
    local pool_name = asked.pool
    look_up(asked)
    if pools[pool_name] and not tried[pool_name] then
      dispatch(pool_name)
      fits = {}
    end
    tried[pool_name] = true
    local opened, has_queue = open_row(asked.row, asked.keys), pools[pool_name]
    local refusal, ends, patience = refusal_of(index, asked, opened, prior, fits)
    if not refusal and has_queue and seldom().stands_before(pool_name, asked.precedence) then
      refusal, ends, patience = {index, seldom().slot_of(asked.row), -1, LIMIT}, false, 0
    end
    if not refusal then
      local lease = commit(asked, opened, prior)
      if has_queue then seldom().count(pool_name, asked.precedence) end
      return {lease = lease, asked = asked, index = index, levels = levels_of(asked.row, opened), refusals = refusals}
    end
    for i = 1, 4 do refusals[#refusals + 1] = refusal[i] end
    asked.patience = patience
    tried[#tried + 1] = asked
    base, arg, index = base + #asked.row, arg + 2 + #asked.row, index + 1
    if ends or arg > #ARGV then
      local found = {tested = index - 1, levels = levels_of(asked.row, opened), refusals = refusals, waiting = {}}
      for i = 1, ends and 0 or #tried do
        local each = tried[i]
        local in_its_pool = each.pool ~= '' and each.pool == pool_name and each.precedence ~= OVER_LIMIT
        if in_its_pool and each.patience and each.patience <= most then
          found.waiting[#found.waiting + 1] = {i - 1, each}
        end
      end
      return found
    end
  end
  return {tested = 0, levels = {}, refusals = refusals, waiting = {}}
end

-- Find a row for a request now, or let it wait for one: under `old`, or as the new lease `id` where that is nil. `wait` is packed:
-- {org, worker, patience in ms, most waiters, most of an org}; '' does not wait. Returns the reply, and the lease that it makes.
local function serve(id, old, ttl, wait)
  local prior, order
  if old then prior, order = seldom().claims_of(old) end
  local bounds = wait ~= '' and decode(wait)
  local found = choose(prior, bounds and bounds[3] or 0)
  local lease = found.lease
  if lease then
    lease.used, lease.grant, lease.opened, lease.noted = '', '', ARGV[3], 0
    if old then seldom().replace_lease(old, lease, prior, order, false) end
    lease.ttl = ttl
    local is_watched = conditions[found.asked.deployment] and seldom().ask(id, found.asked.deployment) or 0
    return encode({GRANTED, now, found.index, found.levels, found.refusals, is_watched, epoch}), lease
  end
  if bounds and #found.waiting > 0 then return seldom().wait(id, old, found, {prior, order, bounds, ttl}) end
  return encode({REFUSED, now, found.tested, found.levels, found.refusals, 0}), nil, prior, order
end

-- What ends take: reading a lease, posting, letting go, and the word on an upstream. Stands behind core.lua.

local function lease_of(text)
  local state, grant, opening, waiter = decode(text)
  local row = groups_of(state[4], 0, #state[4])
  return {
    ttl = state[1], used = state[2], keys = state[3], taken = state[5], posted = state[6], past = state[7], pool = state[8],
    turn = state[9], noted = state[10], seat = state[11], waiter = waiter ~= '' and decode(waiter) or nil, row = row, grant = grant,
    opened = opening, scopes = open_row(row, state[3]),
  }
end

local function read_lease(id)
  local text = call('GET', PREFIX .. 'lease:' .. id)
  return text and lease_of(text) or nil
end

-- Whether its request does not know yet that it may go on.
local function waits(lease)
  return lease.waiter ~= nil or lease.turn >= 0
end

local function note(kind, id, blob)
  call('XADD', KEYS[2], '*', 'kind', kind, 'id', id, 'blob', blob)
end

-- Bring what a charge has posted up to `total`: out of its hold, and beyond it in full.
local function post(lease, scope, group, c, n, total)
  local units = total - lease.posted[n]
  if units <= 0 then return end
  local taken, place, period = min(units, lease.taken[n]), group[c], group[c + PERIOD]
  if group[c + KIND] == LEAKS then
    -- A shadow keeps no more than it would hold: it tells how things stand.
    local most = group[c + ENDS] == SHADOW and group[c + CAPACITY] * period or MOST
    scope[place] = max(scope[place], min(most, scope[place] + units * period))
    scope[DRAINED] = max(scope[DRAINED], scope[place + 1] + ceil(scope[place] / group[c + RATE]))
    if group.written then growing().count_use(scope, group, c, units) end
  elseif group[c + KIND] == USE then
    growing().count_use(scope, group, c, units)
  elseif group[c + UNIT] < BUDGETED or scope[SEEDED] == 1 then
    scope[place] = min(MOST, scope[place] + units)
    scope[DRAINED] = max(scope[DRAINED], period_end(scope[place + 1], period))
  end
  hold(scope, place, -taken)
  lease.taken[n], lease.posted[n] = lease.taken[n] - taken, total
end

-- Post the request itself where `counts`, which is one however often it is reported, tokens as `used` reports them, if it does, and what
-- it takes of budgets as `spent` has it, which an end alone tells: that is in whose period it is spent.
local function post_all(lease, counts, used, spent)
  local n = 0
  for g = 1, #lease.row do
    local group, scope = lease.row[g], lease.scopes[g]
    for c = FIRST, group.last, CHARGE do
      n = n + 1
      local unit = group[c + UNIT]
      if unit == REQUEST then
        if counts then post(lease, scope, group, c, n, group[c + KIND] == USE and 1 or lease.taken[n] + lease.posted[n]) end
      elseif unit >= BUDGETED then
        if spent then post(lease, scope, group, c, n, spent[unit + 1]) end
      elseif unit ~= SLOT and used then
        post(lease, scope, group, c, n, used[unit + 1])
      end
    end
  end
end

-- What is spent of a lease's budgets, which stand first.
local function spent_of(lease)
  local levels = {}
  for g = 1, #lease.row do
    if not is_budget(lease.keys[g]) then break end
    levels[g] = lease.scopes[g][FIRST_PLACE]
  end
  return levels
end

local function leave(scope)
  scope[LEASES], scope.touched = max(0, scope[LEASES] - 1), true
end

local function release_all(lease)
  local n = 0
  for g = 1, #lease.row do
    local group = lease.row[g]
    for c = FIRST, group.last, CHARGE do
      n = n + 1
      hold(lease.scopes[g], group[c], -lease.taken[n])
    end
    leave(lease.scopes[g])
  end
end

local function drop_lease(id)
  call('DEL', PREFIX .. 'lease:' .. id)
  call('ZREM', KEYS[1], id)
end

-- Note how the attempt of a lease ended, if one is under way. `ending` is 1 where it is news even of an upstream that is well, 0
-- elsewhere; the digit of its sign; and what upstreams.lua needs to judge it.
local function end_attempt(id, lease, ending)
  if lease.seat == '' then return end
  local seat = decode(lease.seat)
  if ending >= '1' or condition_of(seat[3]) then seldom().note(id, lease, seat, ending) end
  lease.seat = ''
end

-- Pools of waiters, and the turns that they are given. Stands behind rows.lua; the rules are those of gateway.policy.queue.
--
-- A pool is ten doubles under `pool:<name>`: how many wait (priority, default, flex), the tag that each lane gave last, the streak of
-- priority, how long a turn takes and when the last one came, both in ms, and the number of the last to come. Without the key nobody
-- has waited lately. A lane is a ZSET of orgs by tag, `lane:<precedence>:<name>`; each org in it has a ZSET of its waiters in their
-- order, `line:<precedence>:<length of name>:<name>:<org>`: either name may hold colons.

local PRIORITY, DEFAULT, OVER_LIMIT, FLEX = 0, 1, 2, 3
local LANES = {PRIORITY, DEFAULT, FLEX}
local PRIORITY_TURNS, TURNS_AT_ONCE, REAPED_AT_ONCE = 4, 64, 8
local WAITER_TTL_MS, CONFIRM_MS, REST_MS = 5000, 3000, 3600000
local FIGURES = 'dddddddddd'

local pools, dispatch = {}, nil

-- The pool of this name, false where nobody has waited lately.
local function known_pool(name)
  local pool = pools[name]
  if pool == nil then
    local text = name ~= '' and call('GET', PREFIX .. 'pool:' .. name)
    pool = false
    if text then
      local p, d, f, vp, vd, vf, streak, every, turned, seq = from_bytes(FIGURES, text)
      pool = {
        name = name, n = {[0] = p, [1] = d, [3] = f}, last = {[0] = vp, [1] = vd, [3] = vf}, streak = streak, every = every,
        turned = turned, seq = seq,
      }
    end
    pools[name] = pool
  end
  return pool
end

local function pool_of(name)
  local pool = known_pool(name)
  if not pool then
    pool = {
      name = name, n = {[0] = 0, [1] = 0, [3] = 0}, last = {[0] = 0, [1] = 0, [3] = 0}, streak = 0, every = 0, turned = 0, seq = 0,
    }
    pools[name] = pool
  end
  return pool
end

local function lane_of(pool, precedence)
  return PREFIX .. 'lane:' .. precedence .. ':' .. pool.name
end

local function line_of(pool, precedence, org)
  return PREFIX .. 'line:' .. precedence .. ':' .. #pool.name .. ':' .. pool.name .. ':' .. org
end

-- A pool without waiters has no last turn, and default is owed none where it does not wait.
local function rest(pool)
  pool.touched = true
  if pool.n[PRIORITY] + pool.n[DEFAULT] + pool.n[FLEX] == 0 then pool.turned = 0 end
  if pool.n[DEFAULT] == 0 then pool.streak = 0 end
end

local function count(pool, precedence)
  if pool.n[DEFAULT] == 0 or precedence == DEFAULT then
    pool.touched, pool.streak = pool.touched or pool.streak ~= 0, 0
  elseif precedence == PRIORITY then
    pool.touched, pool.streak = true, pool.streak + 1
  end
end

local function next_lane(pool)
  local n = pool.n
  if n[PRIORITY] > 0 and not (n[DEFAULT] > 0 and pool.streak >= PRIORITY_TURNS) then return PRIORITY end
  if n[DEFAULT] > 0 then return DEFAULT end
  if n[FLEX] > 0 then return FLEX end
end

-- Whether a newcomer would pass somebody whose turn comes first.
local function stands_before(pool, precedence)
  local n = pool.n
  if precedence == PRIORITY then return n[PRIORITY] > 0 or (n[DEFAULT] > 0 and pool.streak >= PRIORITY_TURNS) end
  return n[PRIORITY] + n[DEFAULT] > 0 or (precedence == FLEX and n[FLEX] > 0)
end

local function ahead_of(pool, precedence)
  local ahead = 0
  for _, each in ipairs(LANES) do
    if each <= precedence then ahead = ahead + pool.n[each] end
  end
  return ahead
end

local function join(pool, precedence, org, id, first)
  local line, place = line_of(pool, precedence, org), pool.seq + 1
  local head = first and call('ZRANGE', line, 0, 0, 'WITHSCORES') or {}
  if head[2] then place = tonumber(head[2]) - 1 else pool.seq = place end
  call('ZADD', line, place, id)
  local tag = pool.last[precedence] + 1
  if call('ZADD', lane_of(pool, precedence), 'NX', tag, org) == 1 then pool.last[precedence] = tag end
  pool.n[precedence], pool.touched = pool.n[precedence] + 1, true
end

local function take_out(pool, precedence, org, id)
  local lane, line = lane_of(pool, precedence), line_of(pool, precedence, org)
  call('ZREM', line, id)
  if call('EXISTS', line) == 0 then call('ZREM', lane, org) end
  pool.n[precedence] = max(0, pool.n[precedence] - 1)
  return lane
end

local function serve_turn(pool, precedence, org, id)
  local lane = take_out(pool, precedence, org, id)
  pool.last[precedence] = pool.last[precedence] + 1
  call('ZADD', lane, 'XX', pool.last[precedence], org)
  if pool.turned ~= 0 then
    local taken = max(0, now - pool.turned)
    pool.every = pool.every == 0 and taken or floor((3 * pool.every + taken) / 4)
  end
  pool.turned = now
  count(pool, precedence)
  rest(pool)
end

local function leave_queue(id, lease)
  local waiter = lease.waiter
  if not waiter then return end
  local pool = pool_of(waiter[1])
  take_out(pool, waiter[2], waiter[3], id)
  rest(pool)
  lease.pool, lease.waiter = waiter[1], nil
end

-- End a lease that was never granted for all that its request knows. `closing` is the ledger's closing where there is to be a row.
local function withdraw(id, lease, closing)
  leave_queue(id, lease)
  release_all(lease)
  if closing then
    call('SET', PREFIX .. 'done:' .. id, 'settled1', 'PX', 2 * lease.ttl)
    note('close', id, closing)
  else
    call('SET', PREFIX .. 'done:' .. id, 'settled0', 'PX', LATE_MS)
  end
  dispatch(lease.pool)
end

-- End a lease that nobody renewed: what it had reported was posted then, the request itself is posted now. One that only waited leaves
-- nothing behind.
local function lapse(id)
  local lease = read_lease(id)
  drop_lease(id)
  if not lease then return end
  if waits(lease) and lease.noted == 0 then return withdraw(id, lease, nil) end
  leave_queue(id, lease)
  post_all(lease, true, nil)
  release_all(lease)
  local posted = encode(lease.ttl, lease.keys, lease.posted, lease.packed_row)
  call('SET', PREFIX .. 'done:' .. id, 'expired' .. posted, 'PX', LATE_MS)
  local used = lease.used == '' and {0, 0, 0, 0} or decode(lease.used)
  note('abandoned', id, encode({lease.opened, 1, used[2], used[3], used[4]}))
  dispatch(lease.pool)
end

-- End lapsed leases, a few at a time.
local function reap()
  local lapsed = call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, REAPED_AT_ONCE)
  for _, id in ipairs(lapsed) do
    if call('ZSCORE', KEYS[1], id) then lapse(id) end
  end
  return #lapsed
end

-- The first of a waiter's rows that fits now, its buckets, and what the lease has.
local function fitting(lease)
  for _, found in ipairs(lease.waiter[5]) do
    local row = decode(found[2])
    local asked = {
      row = row, packed = found[2], estimate = decode(found[3]), figures = found[3], keys = found[4], pool = lease.waiter[1],
    }
    local buckets, prior, order = open_row(row, asked.keys, 0), claims_of(lease)
    if not refusal_of(found[1], asked, buckets, prior) then return found[1], asked, buckets, prior, order end
  end
end

-- Give turns in a pool while there is room for whose turn it is.
dispatch = function(name)
  local pool = known_pool(name)
  if not pool then return end
  for _ = 1, TURNS_AT_ONCE do
    local precedence = next_lane(pool)
    if not precedence then return end
    local org = call('ZRANGE', lane_of(pool, precedence), 0, 0)[1]
    local line = line_of(pool, precedence, org)
    local id = call('ZRANGE', line, 0, 0)[1]
    if tonumber(call('ZSCORE', KEYS[1], id) or 0) <= now then
      lapse(id)
      if call('ZSCORE', line, id) then  -- its lease was lost, and must not stand in the way for ever
        take_out(pool, precedence, org, id)
        rest(pool)
      end
    else
      local lease = read_lease(id)
      local index, asked, buckets, prior, order = fitting(lease)
      if not index then return end
      local new, worker = commit(asked, buckets, prior), lease.waiter[4]
      replace_lease(lease, new, prior, order, false)
      new.turn = index
      write_lease(id, new, CONFIRM_MS)
      serve_turn(pool, precedence, org, id)
      call('PUBLISH', PREFIX .. 'turn:' .. worker, id)
    end
  end
end

local function said(lease)
  if waits(lease) or lease.grant == '' then return encode({QUEUED, now, 0, {}, {}}) end
  return lease.grant
end

-- Test the rows in order and commit the first that fits. Returns what was found: the lease that it makes, if one fitted, and else the
-- rows of the last one's pool that may be waited for.
local function choose(rows, prior)
  local refusals, levels, tested, waiting = {}, {}, 0, {}
  for place, asked in ipairs(rows) do
    local index, buckets = place - 1, open_row(asked.row, asked.keys, 0)
    local refusal, ends, waitable = refusal_of(index, asked, buckets, prior)
    local pool = known_pool(asked.pool)
    if not refusal and pool and stands_before(pool, asked.precedence) then
      refusal, ends, waitable = out_of_turn(index, asked.row), false, true
    end
    if not refusal then
      local lease = commit(asked, buckets, prior)
      if pool then count(pool, asked.precedence) end
      return {lease = lease, index = index, levels = levels_of(asked.row, buckets), refusals = refusals, waiting = {}}
    end
    for i = 1, 4 do refusals[#refusals + 1] = refusal[i] end
    levels, tested = levels_of(asked.row, buckets), index
    if ends then return {tested = tested, levels = levels, refusals = refusals, waiting = {}} end
    if waitable and asked.pool ~= '' and asked.pool == rows[#rows].pool and asked.precedence ~= OVER_LIMIT then
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
  local found = choose(rows, prior)
  if found.lease then
    replace_lease(before, found.lease, prior, order, false)
    found.lease.ttl = ttl
    return encode({GRANTED, now, found.index, found.levels, found.refusals}), found.lease
  end
  local refused = {REFUSED, now, found.tested, found.levels, found.refusals}
  if wait == '' or #found.waiting == 0 then return encode(refused), nil, prior, order end
  local asked, bounds = found.waiting[1][2], decode(wait)
  local pool, precedence, org = pool_of(asked.pool), asked.precedence, bounds[1]
  local ahead, of_org = ahead_of(pool, precedence), 0
  for _, each in ipairs(LANES) do of_org = of_org + call('ZCARD', line_of(pool, each, org)) end
  local expected = pool.every * (ahead + 1)
  if pool.n[PRIORITY] + pool.n[DEFAULT] + pool.n[FLEX] >= bounds[4] or of_org >= bounds[5] or expected > bounds[3] then
    local last = #found.refusals - 1
    if found.refusals[last] == -1 and expected > 0 then found.refusals[last] = expected end
    return encode(refused), nil, prior, order
  end
  local own = own_part(asked)
  local lease, offered = commit(own, open_row(own.row, own.keys, 0), prior), {}
  replace_lease(before, lease, prior, order, false)
  for i, each in ipairs(found.waiting) do offered[i] = {each[1], each[2].packed, each[2].figures, each[2].keys} end
  lease.ttl, lease.waiter = ttl, {asked.pool, precedence, org, bounds[2], offered}
  write_lease(id, lease, WAITER_TTL_MS)
  join(pool, precedence, org, id, old ~= nil)
  dispatch(asked.pool)
  lease = read_lease(id)
  if lease.turn < 0 then return encode({QUEUED, now, ahead, found.levels, found.refusals}), lease end
  local index = lease.turn
  lease.turn = -1
  return encode({GRANTED, now, index, levels_of(lease.row, lease.buckets), found.refusals}), lease
end

-- Write every scope and every pool that was touched, once.
local function flush()
  flush_scopes()
  for name, pool in pairs(pools) do
    if pool and pool.touched then
      local n, v, key = pool.n, pool.last, PREFIX .. 'pool:' .. name
      local text = to_bytes(FIGURES, n[0], n[1], n[3], v[0], v[1], v[3], pool.streak, pool.every, pool.turned, pool.seq)
      if n[0] + n[1] + n[3] == 0 then call('SET', key, text, 'PX', REST_MS) else call('SET', key, text) end
    end
  end
end

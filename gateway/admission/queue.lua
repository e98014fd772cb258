-- What waiting takes: lanes, turns, and the ends of who waits. It stands in `open_room`, behind all other parts; the rules are those of
-- gateway.policy.queue.
--
-- A pool is ten doubles under `pool:<name>`: how many wait (priority, default, flex), the tag that each lane gave last, the streak of
-- priority, how long a turn takes and when the last one came, both in ms, and the number of the last to come. Without the key nobody
-- has waited lately. A lane is a ZSET of orgs by tag, `lane:<precedence>:<name>`; each org in it has a ZSET of its waiters in their
-- order, `line:<precedence>:<length of name>:<name>:<org>`: either name may hold colons.

local PRIORITY, DEFAULT, FLEX = 0, 1, 3
local LANES = {PRIORITY, DEFAULT, FLEX}
local PRIORITY_TURNS, TURNS_AT_ONCE = 4, 64
local CONFIRM_MS = 3000
local NOTHING = '00'

local read_pools = {}

-- The pool of this name: one without waiters where nobody has waited lately.
local function pool_of(name)
  local pool = read_pools[name]
  if pool then return pool end
  if pools[name] == nil then pools[name] = call('GET', PREFIX .. 'pool:' .. name) end
  local p, d, f, vp, vd, vf, streak, every, turned, seq = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  if pools[name] then p, d, f, vp, vd, vf, streak, every, turned, seq = from_bytes('dddddddddd', pools[name]) end
  pool = {
    name = name, n = {[0] = p, [1] = d, [3] = f}, last = {[0] = vp, [1] = vd, [3] = vf}, streak = streak, every = every,
    turned = turned, seq = seq,
  }
  read_pools[name], pools[name] = pool, true
  return pool
end

local function flush_pools()
  for name, pool in pairs(read_pools) do
    if pool.touched then
      local n, v, key = pool.n, pool.last, PREFIX .. 'pool:' .. name
      local text = to_bytes('dddddddddd', n[0], n[1], n[3], v[0], v[1], v[3], pool.streak, pool.every, pool.turned, pool.seq)
      if n[0] + n[1] + n[3] == 0 then call('SET', key, text, 'PX', REST_MS) else call('SET', key, text) end
    end
  end
end

local function lane_of(pool, precedence)
  return PREFIX .. 'lane:' .. precedence .. ':' .. pool.name
end

local function line_of(pool, precedence, org)
  return PREFIX .. 'line:' .. precedence .. ':' .. #pool.name .. ':' .. pool.name .. ':' .. org
end

local function said(lease)
  if waits(lease) or lease.grant == '' then return encode({QUEUED, now, 0, {}, {}, 0}) end
  return lease.grant
end

-- 1 where there is something to be said of the upstream that a lease has.
local function watched(lease)
  return condition_of(decode(lease.seat)[3]) and 1 or 0
end

-- A pool without waiters has no last turn, and default is owed none where it does not wait.
local function rest(pool)
  pool.touched = true
  if pool.n[PRIORITY] + pool.n[DEFAULT] + pool.n[FLEX] == 0 then pool.turned = 0 end
  if pool.n[DEFAULT] == 0 then pool.streak = 0 end
end

local function count(name, precedence)
  local pool = pool_of(name)
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
local function stands_before(name, precedence)
  local pool = pool_of(name)
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
  count(pool.name, precedence)
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
  end_attempt(id, lease, NOTHING)
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
  local used = lease.used == '' and {0, 0, 0, 0, 0, 0, 0} or {from_bytes(FIGURES, lease.used)}
  leave_queue(id, lease)
  post_all(lease, true, nil, used)
  end_attempt(id, lease, NOTHING)
  release_all(lease)
  local texts = {}
  for g, group in ipairs(lease.row) do texts[g] = group.text end
  local posted = encode(lease.ttl, lease.keys, lease.posted, texts)
  call('SET', PREFIX .. 'done:' .. id, 'expired' .. posted, 'PX', LATE_MS)
  note('abandoned', id, encode({lease.opened, 1, used[2], used[3], used[4], used[6]}))
  dispatch(lease.pool)
end

-- The first of a waiter's rows that fits now, its scopes, and what the lease has.
local function fitting(lease)
  for _, found in ipairs(lease.waiter[5]) do
    local asked = row_of(found[5], found[3], found[2], 0, found[4], 0)
    look_up(asked)
    local opened, prior, order = open_row(asked.row, asked.keys), claims_of(lease)
    if not refusal_of(found[1], asked, opened, prior, {}) then return found[1], asked, opened, prior, order end
  end
end

-- Give turns in a pool while there is room for whose turn it is.
local function give_turns(name)
  local pool = pool_of(name)
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
      local index, asked, opened, prior, order = fitting(lease)
      if not index then return end
      local new, worker = commit(asked, opened, prior), lease.waiter[4]
      replace_lease(lease, new, prior, order, false)
      ask(id, asked.deployment)
      new.turn = index
      write_lease(id, new, CONFIRM_MS)
      serve_turn(pool, precedence, org, id)
      call('PUBLISH', PREFIX .. 'turn:' .. worker, id)
    end
  end
end

-- How many a newcomer of this precedence comes after, how long it would wait by what is known, and whether it may: {org, worker,
-- patience in ms, most waiters, most of an org}.
local function entry(pool, precedence, bounds)
  local ahead, of_org = ahead_of(pool, precedence), 0
  for _, each in ipairs(LANES) do of_org = of_org + call('ZCARD', line_of(pool, each, bounds[1])) end
  local expected = pool.every * (ahead + 1)
  local waiting = pool.n[PRIORITY] + pool.n[DEFAULT] + pool.n[FLEX]
  return ahead, expected, waiting < bounds[4] and of_org < bounds[5] and expected <= bounds[3]
end

-- Let a request wait for what was found to be worth it, if the queue is open to it: it holds what it takes of its caller meanwhile. Its
-- turn may come at once. `old` is the lease that it had, if any; `how` is {prior claims, their order, bounds, ttl}.
local function wait_for(id, old, found, how)
  local asked, prior, order, bounds = found.waiting[1][2], how[1] or {}, how[2] or {}, how[3]
  local pool, precedence = pool_of(asked.pool), asked.precedence
  local ahead, expected, is_open = entry(pool, precedence, bounds)
  if not is_open then
    local last = #found.refusals - 1
    if found.refusals[last] == -1 and expected > 0 then found.refusals[last] = expected end
    return encode({REFUSED, now, found.tested, found.levels, found.refusals, 0}), nil, prior, order
  end
  local own, offered = own_part(asked), {}
  local lease = commit(own, open_row(own.row, own.keys), prior)
  replace_lease(old or {keys = {}, used = '', grant = '', opened = ARGV[3], noted = 0}, lease, prior, order, false)
  for i, each in ipairs(found.waiting) do
    local row, texts = each[2], {}
    for g, group in ipairs(row.row) do texts[g] = group.text end
    offered[i] = {each[1], texts, row.figures, row.keys, row.seated}
  end
  lease.ttl, lease.waiter = how[4], {asked.pool, precedence, bounds[1], bounds[2], offered}
  write_lease(id, lease, WAITER_TTL_MS)
  join(pool, precedence, bounds[1], id, old ~= nil)
  give_turns(asked.pool)
  lease = read_lease(id)
  if lease.turn < 0 then return encode({QUEUED, now, ahead, found.levels, found.refusals, 0}), lease end
  local index = lease.turn
  lease.turn = -1
  return encode({GRANTED, now, index, levels_of(lease.row, lease.scopes), found.refusals, watched(lease), epoch}), lease
end

return {
  stands_before = stands_before, count = count, wait = wait_for, leave = leave_queue, withdraw = withdraw, lapse = lapse,
  dispatch = give_turns, claims_of = claims_of, replace_lease = replace_lease, slots = slots, bar = bar, ask = ask,
  note = note_ending, slot_of = slot_of, read_lease = read_lease, lease_of = lease_of, said = said, watched = watched,
  flush_pools = flush_pools,
}

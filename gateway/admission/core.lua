-- The ground that every admission script stands on: the clock, buckets, leases and their ends. A script is this text, then its own.
--
-- KEYS[1] is the ZSET of leases by expiry, KEYS[2] the ledger's stream; these and all other keys begin with one prefix and lie in
-- one slot. ARGV[1] is the time in Unix milliseconds, empty outside tests: the store's own clock then.
--
-- A scope is a hash. Each bucket is a field of three doubles: debt (unit*ms where it leaks, units elsewhere), at (ms), held (units).
-- The field `life` is two: how many leases reach the scope, and when all that was posted will have leaked (ms). A hash stays while
-- a lease reaches it, and until it is drained.
--
-- A row is a list of groups, one for each scope; a group is the list of its dimensions, then nine values a charge, at the offsets
-- below. The charges of a row are numbered through its groups. A lease is msgpack: {ttl in ms, figures reported (packed), keys of the
-- row's scopes, units held and units posted by the row's charges, what earlier rows posted: key, dimension, units, ..., the pool of
-- its deployment or '', the place of the row that its turn brought or -1, 1 where the ledger knows of it, the seat of the attempt under
-- way or '' (rows.lua)}, then the row, the grant, the ledger's opening, and '' or what it is as a waiter: {pool, precedence, org,
-- worker, rows}, see queue.lua.

local DIM, KIND, UNIT, REACH, CAPACITY, RATE, PERIOD, ENDS, OWN = 0, 1, 2, 3, 4, 5, 6, 7, 8
local FIRST, CHARGE = 2, 9
local LEAKS, CALENDAR, HELD = 0, 1, 2
local REQUEST, SLOT = 0, 4
local OF_REQUEST, OF_DEPLOYMENT = 0, 2
local LATE_MS, MOST = 3600000, 9007199254740991

local call, max, min, floor, ceil, sub = redis.call, math.max, math.min, math.floor, math.ceil, string.sub
local encode, decode, to_bytes, from_bytes = cmsgpack.pack, cmsgpack.unpack, struct.pack, struct.unpack

local PREFIX = sub(KEYS[1], 1, -7)
local now = tonumber(ARGV[1])
if not now then
  local clock = call('TIME')
  now = clock[1] * 1000 + floor(clock[2] / 1000)
end

local scopes = {}

-- Open the buckets of a row's charges, by number, as they are now; `keys` from `base` on are those of its scopes. A clock that went
-- back gives nothing back, and takes nothing twice.
local function open_row(row, keys, base)
  local opened, n = {}, 0
  for g = 1, #row do
    local group, key = row[g], keys[base + g]
    local texts, scope = call('HMGET', key, 'life', unpack(group[1])), scopes[key]
    if not scope then
      local leases, drained = 0, 0
      if texts[1] then leases, drained = from_bytes('dd', texts[1]) end
      scope = {buckets = {}, leases = leases, before = leases, drained = drained}
      scopes[key] = scope
    end
    for i = 1, #group[1] do
      local c, dim = FIRST + (i - 1) * CHARGE, group[1][i]
      local bucket = scope.buckets[dim]
      if not bucket then
        local debt, at, held = 0, now, 0
        if texts[i + 1] then
          debt, at, held = from_bytes('ddd', texts[i + 1])
          if now > at then
            if group[c + KIND] == LEAKS then debt = max(0, debt - group[c + RATE] * (now - at))
            elseif floor(now / group[c + PERIOD]) > floor(at / group[c + PERIOD]) then debt = 0 end
            at = now
          end
        end
        bucket = {debt = debt, at = at, held = held, scope = scope}
        scope.buckets[dim] = bucket
      end
      n = n + 1
      opened[n] = bucket
    end
  end
  return opened
end

-- A hold cannot be negative: what is missing was lost with the store, and is counted, never given as credit.
local function hold(bucket, units)
  local held = bucket.held + units
  if held < 0 then
    held = 0
    call('HINCRBY', PREFIX .. 'faults', 'negative_hold', 1)
  end
  bucket.held, bucket.touched, bucket.scope.touched = held, true, true
end

-- Bring what a charge has posted up to `total`: out of its hold, and beyond it in full.
local function post(lease, bucket, group, c, n, total)
  local units = total - lease.posted[n]
  if units <= 0 then return end
  local scope, taken, period = bucket.scope, min(units, lease.taken[n]), group[c + PERIOD]
  if group[c + KIND] == LEAKS then
    bucket.debt = min(MOST, bucket.debt + units * period)
    scope.drained = max(scope.drained, bucket.at + ceil(bucket.debt / group[c + RATE]))
  else
    bucket.debt = min(MOST, bucket.debt + units)
    scope.drained = max(scope.drained, (floor(bucket.at / period) + 1) * period)
  end
  hold(bucket, -taken)
  lease.taken[n], lease.posted[n] = lease.taken[n] - taken, total
end

-- Post the request itself where `counts`, which is one however often it is reported, and tokens as `used` reports them, if it does.
local function post_all(lease, counts, used)
  local n = 0
  for g = 1, #lease.row do
    local group = lease.row[g]
    for c = FIRST, #group, CHARGE do
      n = n + 1
      local unit = group[c + UNIT]
      if unit == REQUEST then
        if counts then post(lease, lease.buckets[n], group, c, n, lease.taken[n] + lease.posted[n]) end
      elseif unit ~= SLOT and used then
        post(lease, lease.buckets[n], group, c, n, used[unit + 1])
      end
    end
  end
end

local function leave(scope)
  scope.leases, scope.touched = max(0, scope.leases - 1), true
end

local function release_all(lease)
  for n = 1, #lease.buckets do hold(lease.buckets[n], -lease.taken[n]) end
  for g = 1, #lease.keys do leave(scopes[lease.keys[g]]) end
end

local function read_lease(id)
  local text = call('GET', PREFIX .. 'lease:' .. id)
  if not text then return nil end
  local state, packed_row, grant, opened, waiter = decode(text)
  local row = decode(packed_row)
  return {
    ttl = state[1], used = state[2], keys = state[3], taken = state[4], posted = state[5], past = state[6],
    pool = state[7], turn = state[8], noted = state[9], seat = state[10], waiter = waiter ~= '' and decode(waiter) or nil,
    row = row, packed_row = packed_row, grant = grant, opened = opened, buckets = open_row(row, state[3], 0),
  }
end

-- Whether its request does not know yet that it may go on.
local function waits(lease)
  return lease.waiter ~= nil or lease.turn >= 0
end

local function write_lease(id, lease, ttl_ms)
  local state = {
    lease.ttl, lease.used, lease.keys, lease.taken, lease.posted, lease.past, lease.pool, lease.turn, lease.noted, lease.seat,
  }
  local waiter = lease.waiter and encode(lease.waiter) or ''
  call('SET', PREFIX .. 'lease:' .. id, encode(state, lease.packed_row, lease.grant, lease.opened, waiter))
  call('ZADD', KEYS[1], now + ttl_ms, id)
end

local function drop_lease(id)
  call('DEL', PREFIX .. 'lease:' .. id)
  call('ZREM', KEYS[1], id)
end

local function note(kind, id, blob)
  call('XADD', KEYS[2], '*', 'kind', kind, 'id', id, 'blob', blob)
end

-- Write every scope that was touched, once.
local function flush_scopes()
  for key, scope in pairs(scopes) do
    if scope.touched then
      local fields, n = {'HSET', key, 'life', to_bytes('dd', scope.leases, scope.drained)}, 4
      for dim, bucket in pairs(scope.buckets) do
        if bucket.touched then
          fields[n + 1], fields[n + 2] = dim, to_bytes('ddd', bucket.debt, bucket.at, bucket.held)
          n = n + 2
        end
      end
      call(unpack(fields))
      if scope.leases == 0 then call('PEXPIREAT', key, max(scope.drained, now))
      elseif scope.before == 0 then call('PERSIST', key) end
    end
  end
end

-- Pools of waiters, see queue.lua. Most calls meet none, and a store runs all of a script's text at every call: what only waiters need,
-- and upstreams in trouble, stands in `open_room`, which the script defines, and is made when it is asked for.

local FIGURES, REAPED_AT_ONCE, REST_MS = 'dddddddddd', 8, 3600000
local pools, room, open_room = {}, nil, nil

local function queue()
  room = room or open_room()
  return room
end

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

-- Give turns in a pool while there is room for whose turn it is.
local function dispatch(name)
  if known_pool(name) then queue().dispatch(name) end
end

-- How a deployment is doing, see upstreams.lua: false where all is well, which most are.
local conditions = {}

local function condition_of(deployment)
  local known = conditions[deployment]
  if known == nil then
    known = deployment ~= '' and call('GET', PREFIX .. 'up:' .. deployment)
    conditions[deployment] = known
  end
  return known
end

-- Note how the attempt of a lease ended, if one is under way. `ending` is 1 where it is news even of an upstream that is well, 0
-- elsewhere; the digit of its sign; and what upstreams.lua needs to judge it.
local function end_attempt(id, lease, ending)
  if lease.seat == '' then return end
  local seat = decode(lease.seat)
  if ending >= '1' or condition_of(seat[3]) then queue().note(id, lease, seat, ending) end
  lease.seat = ''
end

-- End lapsed leases, a few at a time.
local function reap()
  local lapsed = call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, REAPED_AT_ONCE)
  for _, id in ipairs(lapsed) do
    if call('ZSCORE', KEYS[1], id) then queue().lapse(id) end
  end
  return #lapsed
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

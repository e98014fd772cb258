-- The ground that every admission script stands on: the clock, buckets and leases. A script is this text, then its own and those of the
-- parts that it needs (see gateway.admission.scripts).
--
-- KEYS[1] is the ZSET of leases by expiry, KEYS[2] the ledger's stream; these and all other keys begin with one prefix and lie in
-- one slot. ARGV[1] is the time in Unix milliseconds, empty outside tests: the store's own clock then.
--
-- A scope is a hash. Each bucket is a field of three doubles: debt (unit*ms where it leaks, units elsewhere), at (ms), held (units).
-- The field `life` is two: how many leases reach the scope, and when all that was posted will have leaked (ms). A hash stays while
-- a lease reaches it, and until it is drained.
--
-- A row is a list of groups, one for each scope. A group is the list of its dimensions, the reach of its holds, 1 where it is the
-- caller's own, then six values for each dimension, at the offsets below. The charges of a row are numbered through its groups. A lease is msgpack: {ttl in ms, figures reported (packed), keys of the
-- row's scopes, units held and units posted by the row's charges, what earlier rows posted: key, dimension, units, ..., the pool of
-- its deployment or '', the place of the row that its turn brought or -1, 1 where the ledger knows of it, the seat of the attempt under
-- way or '' (rows.lua)}, then the row, the grant, the ledger's opening, and '' or what it is as a waiter: {pool, precedence, org,
-- worker, rows}, see queue.lua.

local DIMS, REACH, OWN, FIRST, CHARGE = 1, 2, 3, 4, 6
local KIND, UNIT, CAPACITY, RATE, PERIOD, ENDS = 0, 1, 2, 3, 4, 5
local LEAKS, CALENDAR, HELD = 0, 1, 2
local REQUEST, SLOT = 0, 4
local OF_REQUEST, OF_DEPLOYMENT = 0, 2
local LATE_MS, REST_MS, MOST = 3600000, 3600000, 9007199254740991
local FIGURES, REAPED_AT_ONCE, WAITER_TTL_MS = 'dddddddddd', 8, 5000

local call, max, min, floor, ceil, sub = redis.call, math.max, math.min, math.floor, math.ceil, string.sub
local encode, decode, to_bytes, from_bytes = cmsgpack.pack, cmsgpack.unpack, struct.pack, struct.unpack

local PREFIX = sub(KEYS[1], 1, -7)
local now = tonumber(ARGV[1])
if not now then
  local clock = call('TIME')
  now = clock[1] * 1000 + floor(clock[2] / 1000)
end

local scopes = {}

local function opened(scope, dims)
  for i = 1, #dims do
    if not scope.buckets[dims[i]] then return false end
  end
  return true
end

-- Open the buckets of a row's charges, by number, as they are now; `keys` from `base` on are those of its scopes. A clock that went
-- back gives nothing back, and takes nothing twice.
local function open_row(row, keys, base)
  local found, n = {}, 0
  for g = 1, #row do
    local group, key = row[g], keys[base + g]
    local dims, scope = group[DIMS], scopes[key]
    if not scope or not opened(scope, dims) then
      local texts = call('HMGET', key, 'life', unpack(dims))
      if not scope then
        local life, leases, drained = texts[1], 0, 0
        if life then leases, drained = from_bytes('dd', life) end
        scope = {buckets = {}, leases = leases, fades = life and leases == 0, drained = drained}
        scopes[key] = scope
      end
      local c = FIRST
      for i = 1, #dims do
        local dim, text = dims[i], texts[i + 1]
        if not scope.buckets[dim] then
          local debt, at, held = 0, now, 0
          if text then
            debt, at, held = from_bytes('ddd', text)
            if now > at then
              if group[c + KIND] == LEAKS then debt = max(0, debt - group[c + RATE] * (now - at))
              elseif floor(now / group[c + PERIOD]) > floor(at / group[c + PERIOD]) then debt = 0 end
              at = now
            end
          end
          scope.buckets[dim] = {debt = debt, at = at, held = held, scope = scope}
        end
        c = c + CHARGE
      end
    end
    for i = 1, #dims do
      n = n + 1
      found[n] = scope.buckets[dims[i]]
    end
  end
  return found
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

local function lease_of(text)
  local state, packed_row, grant, opened_event, waiter = decode(text)
  local row = decode(packed_row)
  return {
    ttl = state[1], used = state[2], keys = state[3], taken = state[4], posted = state[5], past = state[6],
    pool = state[7], turn = state[8], noted = state[9], seat = state[10], waiter = waiter ~= '' and decode(waiter) or nil,
    row = row, packed_row = packed_row, grant = grant, opened = opened_event, buckets = open_row(row, state[3], 0),
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

local function write_lease(id, lease, ttl_ms)
  local state = {
    lease.ttl, lease.used, lease.keys, lease.taken, lease.posted, lease.past, lease.pool, lease.turn, lease.noted, lease.seat,
  }
  local waiter = lease.waiter and encode(lease.waiter) or ''
  call('SET', PREFIX .. 'lease:' .. id, encode(state, lease.packed_row, lease.grant, lease.opened, waiter))
  call('ZADD', KEYS[1], now + ttl_ms, id)
end

local function note(kind, id, blob)
  call('XADD', KEYS[2], '*', 'kind', kind, 'id', id, 'blob', blob)
end

-- What most calls do not need stands in `open_room`, which the script defines, and is made when it is asked for: a store runs all of a
-- script's text at every call.
local pools, conditions, room, open_room = {}, {}, nil, nil

local function seldom()
  room = room or open_room()
  return room
end

local function keep_pool(name, text)
  local pool = false
  if text then
    local p, d, f, vp, vd, vf, streak, every, turned, seq = from_bytes(FIGURES, text)
    pool = {
      name = name, n = {[0] = p, [1] = d, [3] = f}, last = {[0] = vp, [1] = vd, [3] = vf}, streak = streak, every = every,
      turned = turned, seq = seq,
    }
  end
  pools[name] = pool
  return pool
end

-- The pool of waiters of this name, see queue.lua: false where nobody has waited lately.
local function known_pool(name)
  local pool = pools[name]
  if pool == nil then pool = keep_pool(name, name ~= '' and call('GET', PREFIX .. 'pool:' .. name)) end
  return pool
end

-- Give turns in a pool while there is room for whose turn it is.
local function dispatch(name)
  if known_pool(name) then seldom().dispatch(name) end
end

-- How a deployment is doing, see upstreams.lua: false where all is well, which most are.
local function condition_of(deployment)
  local known = conditions[deployment]
  if known == nil then
    known = deployment ~= '' and call('GET', PREFIX .. 'up:' .. deployment)
    conditions[deployment] = known
  end
  return known
end

-- End lapsed leases, a few at a time.
local function reap()
  local lapsed = call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, REAPED_AT_ONCE)
  for _, id in ipairs(lapsed) do
    if call('ZSCORE', KEYS[1], id) then seldom().lapse(id) end
  end
end

-- Write every scope and every pool that was touched, once.
local function flush()
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
      elseif scope.fades then call('PERSIST', key) end
    end
  end
  for name, pool in pairs(pools) do
    if pool and pool.touched then
      local n, v, key = pool.n, pool.last, PREFIX .. 'pool:' .. name
      local text = to_bytes(FIGURES, n[0], n[1], n[3], v[0], v[1], v[3], pool.streak, pool.every, pool.turned, pool.seq)
      if n[0] + n[1] + n[3] == 0 then call('SET', key, text, 'PX', REST_MS) else call('SET', key, text) end
    end
  end
end

-- The ground that every admission script stands on: the clock, buckets and leases. A script is this text, then its own and those of the
-- parts that it needs (see gateway.admission.scripts).
--
-- KEYS[1] is the ZSET of leases by expiry, KEYS[2] the ledger's stream; these and all other keys begin with one prefix and lie in
-- one slot. ARGV[1] is the time in Unix milliseconds, empty outside tests: the store's own clock then.
--
-- A scope is a string of doubles: how many leases reach it, when all that was posted will have leaked (ms), then three for each
-- dimension, its bucket: debt (unit*ms where it leaks, units elsewhere), at (ms), held (units). It stays while a lease reaches it, and
-- until it is drained. A budget has a scope of its own: its bucket stands in the first place, and 1 in the second once seed.lua has told
-- what was spent; without that there is at most what adopted leases hold. Before these figures, a script keeps for each bucket whether
-- it has touched it: others stay as they were.
--
-- A row is a list of groups, one for each scope. A group is a string of doubles: the reach of its holds, 1 where it is the caller's own,
-- then seven for each charge, at the offsets below: the first is the place of its bucket in the scope; then, where its rates grow with
-- use (growth.lua), how long a window is (ms), and the highest scale (thousandths). Of kind USE, a charge takes nothing and counts for
-- that growth alone. Whether a charge without room ends the walk is 0 or 1; a SHADOW is taken whether there is room or not. The charges of a row are numbered through its groups. What is spent, money and a budget's tokens, has the units
-- from BUDGETED on; a request's figures are doubles by unit.
--
-- A lease is msgpack: {ttl in ms, figures reported (packed), keys of the row's scopes, its groups, units held and units posted by the
-- row's charges, what earlier rows posted: key, place, units, ..., the pool of its deployment or '', the place of the row that its turn
-- brought or -1, 1 where the ledger knows of it, the seat of the attempt under way or '' (rows.lua)}, then the grant, the ledger's
-- opening, and '' or what it is as a waiter: {pool, precedence, org, worker, rows}, see queue.lua.

local REACH, OWN, FIRST, CHARGE = 1, 2, 3, 7
local PLACE, KIND, UNIT, CAPACITY, RATE, PERIOD, ENDS = 0, 1, 2, 3, 4, 5, 6
local LEASES, DRAINED, FIRST_PLACE, SEEDED, LAST_PLACE, LAST_FIGURE = 7, 8, 9, 12, 24, 26
local USE, LEAKS, CALENDAR, HELD = -1, 0, 1, 2
local SHADOW = 2
local REQUEST, SLOT, BUDGETED = 0, 4, 5
local OF_REQUEST, OF_DEPLOYMENT = 0, 2
local LATE_MS, REST_MS, MOST = 3600000, 3600000, 9007199254740991
local DAY_MS, WEEK_MS, MONDAY_MS, DAYS_BEFORE_EPOCH = 86400000, 604800000, 345600000, 719468
local SCOPE, FIGURES = 'dddddddddddddddddddd', 'ddddddd'
local REAPED_AT_ONCE, WAITER_TTL_MS = 8, 5000

local call, max, min, floor, ceil, sub, rep = redis.call, math.max, math.min, math.floor, math.ceil, string.sub, string.rep
local encode, decode, to_bytes, from_bytes = cmsgpack.pack, cmsgpack.unpack, struct.pack, struct.unpack

local PREFIX = sub(KEYS[1], 1, -7)
local now = tonumber(ARGV[1])
if not now then
  local clock = call('TIME')
  now = clock[1] * 1000 + floor(clock[2] / 1000)
end

local scopes, groups = {}, {}

-- What most calls do not need stands in `open_room` and `open_growth`, which the script defines, and is made when it is asked for: a
-- store runs all of a script's text at every call.
local pools, conditions, room, open_room, growth, open_growth = {}, {}, nil, nil, nil, nil

local function seldom()
  room = room or open_room()
  return room
end

local function growing()
  growth = growth or open_growth()
  return growth
end

local function scope_of(text)
  if not text then return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} end
  local scope = {0, 0, 0, 0, 0, 0, from_bytes(SCOPE, text)}
  scope.text = text
  return scope
end

-- Whether a key is that of a budget's scope: kb, ob or pb, whose it is.
local function is_budget(key)
  return sub(key, #PREFIX + 2, #PREFIX + 3) == 'b:'
end

-- When the period of the calendar ends that a time lies in: a day, a week from Monday (the epoch began on a Thursday) or, where it has no
-- length, a month. Years are taken to begin with March, so that the leap day ends one: the first one with year 0.
local function period_end(at, period)
  if period > 0 then
    local first = period == WEEK_MS and MONDAY_MS or 0
    return (floor((at - first) / period) + 1) * period + first
  end
  local function new_year(year)
    return 365 * year + floor(year / 4) - floor(year / 100) + floor(year / 400)
  end
  local days = floor(at / DAY_MS) + DAYS_BEFORE_EPOCH
  local year = floor(days / 365.2425)
  if new_year(year) > days then year = year - 1 elseif new_year(year + 1) <= days then year = year + 1 end
  local month = floor((5 * (days - new_year(year)) + 2) / 153)
  local ends = month < 11 and new_year(year) + floor((153 * month + 155) / 5) or new_year(year + 1)
  return (ends - DAYS_BEFORE_EPOCH) * DAY_MS
end

-- The groups of these texts; what rows share is read once. The last figure of each is followed by one more, which is none.
local function groups_of(texts, at, n)
  local row = {}
  for g = 1, n do
    local text = texts[at + g]
    local group = groups[text]
    if not group then
      local figures = #text / 8
      local more = (figures - 2) % CHARGE
      group = {from_bytes(rep('d', figures), text)}
      group.text, group.last = text, figures - more
      if more > 0 then group.window, group.ceiling = group[figures - 1], group[figures] end
      groups[text] = group
    end
    row[g] = group
  end
  return row
end

-- The scopes of a row, with its buckets as they are now; groups of rates that grow become those in force. A clock that went back gives
-- nothing back, and takes nothing twice.
local function open_row(row, keys)
  local unknown
  for g = 1, #row do
    if not scopes[keys[g]] then
      unknown = unknown or {}
      unknown[#unknown + 1] = keys[g]
    end
  end
  if unknown then
    local texts = call('MGET', unpack(unknown))
    for i = 1, #unknown do scopes[unknown[i]] = scope_of(texts[i]) end
  end
  local found = {}
  for g = 1, #row do
    local group, scope = row[g], scopes[keys[g]]
    if group.window then
      group = growing().in_force(group, scope)
      row[g] = group
    end
    for c = FIRST, group.last, CHARGE do
      local place = group[c]
      local at = scope[place + 1]
      if now > at then
        if scope[place] > 0 then
          if group[c + KIND] <= LEAKS then scope[place] = max(0, scope[place] - group[c + RATE] * (now - at))
          elseif now >= period_end(at, group[c + PERIOD]) then scope[place] = 0 end
        end
        scope[place + 1] = now
      end
    end
    found[g] = scope
  end
  return found
end

-- A hold cannot be negative: what is missing was lost with the store, and is counted, never given as credit.
local function hold(scope, place, units)
  local held = scope[place + 2] + units
  if held < 0 then
    held = 0
    call('HINCRBY', PREFIX .. 'faults', 'negative_hold', 1)
  end
  scope[place + 2], scope[place / 3 - 2], scope.touched = held, 1, true
end

local function write_lease(id, lease, ttl_ms)
  local texts = {}
  for g = 1, #lease.row do texts[g] = lease.row[g].text end
  local state = {
    lease.ttl, lease.used, lease.keys, texts, lease.taken, lease.posted, lease.past, lease.pool, lease.turn, lease.noted, lease.seat,
  }
  local waiter = lease.waiter and encode(lease.waiter) or ''
  call('SET', PREFIX .. 'lease:' .. id, encode(state, lease.grant, lease.opened, waiter))
  call('ZADD', KEYS[1], now + ttl_ms, id)
end

-- Give turns in a pool (queue.lua) while there is room for whose turn it is. Nearly always nobody has waited there lately.
local function dispatch(name)
  if pools[name] == nil then pools[name] = name ~= '' and call('GET', PREFIX .. 'pool:' .. name) end
  if pools[name] then seldom().dispatch(name) end
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
  for i = 1, #lapsed do
    if call('ZSCORE', KEYS[1], lapsed[i]) then seldom().lapse(lapsed[i]) end
  end
end

-- Have the buckets that were only looked at be as they were: a clock that goes back must find them so.
local function restore(scope)
  for place = FIRST_PLACE, LAST_PLACE, 3 do
    if scope[place / 3 - 2] == 0 and scope[place + 1] > 0 then
      local was = scope_of(scope.text)
      scope[place], scope[place + 1] = was[place], was[place + 1]
    end
  end
end

-- Write every scope and every pool that was touched, once. What is posted to a budget that the store knows nothing of, the ledger has.
local function flush()
  local written, n = {'MSET'}, 1
  for key, scope in pairs(scopes) do
    if scope.touched and (scope.text or scope.adopted or not is_budget(key)) then
      if scope.text then restore(scope) end
      local text = to_bytes(SCOPE, unpack(scope, LEASES, LAST_FIGURE))
      if scope.windows or scope.text and #scope.text > #text then text = text .. growing().packed_windows(scope) end
      written[n + 1], written[n + 2], n = key, text, n + 2
    end
  end
  if n > 1 then call(unpack(written)) end
  for key, scope in pairs(scopes) do
    if scope.touched and scope[LEASES] == 0 then call('PEXPIREAT', key, max(scope[DRAINED], now)) end
  end
  if room then room.flush_pools() end
end

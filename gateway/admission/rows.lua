-- Candidate rows, tested and committed. Stands behind core.lua.
--
-- Of the scripts that are asked about rows, KEYS from the fifth on are the rows' scopes, row after row, and ARGV from the fifth on the
-- rows. A row is its seat, its estimate, indexed by unit, and the group of charges of each of its scopes. Before the seat stands 1 or
-- 0, whether nothing comes after the row, and the digit of how many scopes there are. A seat is {precedence, pool or '', deployment or
-- '', credential, slots declared or 0, the part of them that the row's tier may fill, in millionths}. All but digits is msgpack; what
-- rows share is decoded once. `prior` is what the lease has in buckets, by key and dimension.
--
-- The reply is msgpack: {0 granted, 1 refused, 2 spent or 3 queued, now, row or how many are ahead, levels, refusals, 1 where the
-- upstream is watched}. A level is three numbers for each charge of the granted row, or of the last one tested: level, held, reset in
-- ms. A refusal is four: row, charge, wait in ms or -1, cause.

local GRANTED, REFUSED, SPENT, QUEUED = 0, 1, 2, 3
local LIMIT, TOO_LARGE, DISABLED = 0, 1, 4
local FIRST_KEY, FIRST_ROW = 4, 5

local texts_decoded, cooled = {}, {}

local function decode_once(text)
  local known = texts_decoded[text]
  if not known then
    known = decode(text)
    texts_decoded[text] = known
  end
  return known
end

-- A row as it is tested. `groups` are its charges, packed one by one from `at` on; `keys` from `base` on are their scopes'.
local function row_of(seated, figures, groups, at, keys, base)
  local seat, row, its_keys = sub(seated, 3), {}, {}
  local place = decode_once(seat)
  for g = 1, tonumber(sub(seated, 2, 2)) do
    row[g], its_keys[g] = decode_once(groups[at + g]), keys[base + g]
  end
  return {
    row = row, keys = its_keys, estimate = decode_once(figures), figures = figures, seated = seated, seat = seat,
    last = sub(seated, 1, 1) == '1', precedence = place[1], pool = place[2], deployment = place[3], credential = place[4],
    share = place[6], groups = groups, at = at,
  }
end

-- A row's charges as one msgpack list.
local function packed_row(asked)
  local n = #asked.row
  return string.char(144 + n) .. table.concat(asked.groups, '', asked.at + 1, asked.at + n)
end

-- Look up what a row's verdict depends on besides its buckets: who waits in its pool, how its deployment and its credential are doing.
local function look_up(asked)
  local pool, deployment, credential = asked.pool, asked.deployment, asked.credential
  if pools[pool] ~= nil and conditions[deployment] ~= nil and cooled[credential] ~= nil then return end
  local found = call('MGET', PREFIX .. 'pool:' .. pool, PREFIX .. 'up:' .. deployment, PREFIX .. 'cool:' .. credential)
  if pools[pool] == nil then keep_pool(pool, pool ~= '' and found[1]) end
  conditions[deployment], cooled[credential] = found[2], found[3]
end

-- When a leaking or calendar bucket will have shed `weighed`.
local function shed_ms(bucket, group, c, weighed)
  if group[c + KIND] == LEAKS then return bucket.at - now + ceil(weighed / group[c + RATE]) end
  return (floor(bucket.at / group[c + PERIOD]) + 1) * group[c + PERIOD] - now
end

-- The number of the charge that takes a slot of the row's deployment.
local function slot_of(row)
  local n = 0
  for g = 1, #row do
    for c = FIRST, #row[g], CHARGE do
      if row[g][c + UNIT] == SLOT and row[g][REACH] == OF_DEPLOYMENT then return n end
      n = n + 1
    end
  end
  return 0
end

local function later(wait, other)
  if wait == -1 or other == -1 then return -1 end
  return max(wait, other)
end

-- The refusal of a row, if it does not fit, whether no other row may be tried, and the least patience that may make it fit, false where
-- none does. Taking nothing always fits. `fits` keeps the groups that fitted a row before, which need no second look.
local function refusal_of(index, asked, buckets, prior, fits)
  local n, named, rank, cause, wait, ends, patience = 0, nil, 4, LIMIT, 0, false, 0
  local row, estimate, slots = asked.row, asked.estimate, conditions[asked.deployment] and seldom().slots(asked)
  for g = 1, #row do
    local group, claims, known = row[g], prior and prior[asked.keys[g]], fits[row[g]] == estimate
    local c, fine = FIRST, true
    for i = 1, known and 0 or #group[DIMS] do
      local cost, claim = estimate[group[c + UNIT] + 1], claims and claims[group[DIMS][i]]
      if claim then cost = cost - claim.taken - claim.posted end
      if cost > 0 then
        local bucket, kind, capacity = buckets[n + i], group[c + KIND], group[c + CAPACITY]
        if slots and group[c + UNIT] == SLOT and group[REACH] == OF_DEPLOYMENT then capacity = min(capacity, slots) end
        local lacking = bucket.held + cost - capacity
        local excess = bucket.debt + (kind == LEAKS and lacking * group[c + PERIOD] or lacking)
        if excess > 0 then
          local its_wait = (kind == HELD or lacking > 0) and -1 or shed_ms(bucket, group, c, excess)
          local too_large = cost > group[c + CAPACITY]
          local its_rank = (group[c + ENDS] == 1 and 0 or 2) + (too_large and 0 or 1)
          if its_rank < rank then named, rank, cause = n + i - 1, its_rank, too_large and TOO_LARGE or LIMIT end
          wait, ends = later(wait, its_wait), ends or group[c + ENDS] == 1
          patience, fine = patience and not too_large and group[OWN] == 0 and max(patience, its_wait), false
        end
      end
      c = c + CHARGE
    end
    if fine then fits[group] = estimate end
    n = n + #group[DIMS]
  end
  if conditions[asked.deployment] or cooled[asked.credential] then
    local bar, its_wait = seldom().bar(asked)
    if bar then
      if not named then named, cause = slot_of(row), bar end
      wait, patience = later(wait, its_wait), patience and bar ~= DISABLED and max(patience, its_wait)
    end
  end
  return named and {index, named, wait, cause}, ends, patience
end

local function levels_of(row, buckets)
  local levels, n = {}, 0
  for g = 1, #row do
    local group = row[g]
    for c = FIRST, #group, CHARGE do
      local bucket, kind, weight = buckets[n + 1], group[c + KIND], 1
      if kind == LEAKS then weight = group[c + PERIOD] end
      local weighed = bucket.debt + bucket.held * weight
      levels[3 * n + 1] = ceil(bucket.debt / weight)
      levels[3 * n + 2] = bucket.held
      levels[3 * n + 3] = (kind == HELD or weighed == 0) and 0 or shed_ms(bucket, group, c, weighed)
      n = n + 1
    end
  end
  return levels
end

-- Hold for each charge what was not posted yet. Returns the lease that it makes; `prior` claims that it takes over are used up.
local function commit(asked, buckets, prior)
  local row, taken, posted, n = asked.row, {}, {}, 0
  for g = 1, #row do
    local group, claims, c = row[g], prior and prior[asked.keys[g]], FIRST
    for _, dim in ipairs(group[DIMS]) do
      n = n + 1
      local units, was, claim = asked.estimate[group[c + UNIT] + 1], 0, claims and claims[dim]
      posted[n] = 0
      if claim then
        was, posted[n] = claim.taken, claim.posted
        units = max(0, units - claim.posted)
        claims[dim] = nil
      end
      hold(buckets[n], units - was)
      taken[n], c = units, c + CHARGE
    end
  end
  return {
    keys = asked.keys, taken = taken, posted = posted, row = row, packed_row = packed_row(asked), buckets = buckets, past = {},
    pool = asked.pool, turn = -1, seat = asked.seat,
  }
end

-- Have a lease's scopes know of it, and give it what was said of the one before.
local function settle_in(new, old)
  for _, key in ipairs(new.keys) do scopes[key].leases = scopes[key].leases + 1 end
  new.ttl, new.used, new.grant, new.opened, new.noted = old.ttl, old.used, old.grant, old.opened, old.noted
end

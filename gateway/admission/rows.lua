-- Candidate rows, tested and committed. Stands behind core.lua.
--
-- Of the scripts that are asked about rows, KEYS from the fifth on are the rows' scopes, row after row, and ARGV from the fifth on
-- are three for each row: its charges as core.lua tells, its estimate, indexed by unit (both msgpack), and 1 or 0, whether nothing comes
-- after it, before its seat. A seat, msgpack, is {precedence, pool or '', deployment or '', credential, slots declared or 0, the part of them that the row's
-- tier may fill, in millionths}. `prior` is what the lease has in buckets, by key and dimension.
--
-- The reply is msgpack: {0 granted, 1 refused, 2 spent or 3 queued, now, row or how many are ahead, levels, refusals, 1 where the
-- upstream is watched}. A level is three numbers for each charge of the granted row, or of the last one tested: level, held, reset in
-- ms. A refusal is four: row, charge, wait in ms or -1, cause.

local GRANTED, REFUSED, SPENT, QUEUED = 0, 1, 2, 3
local LIMIT, TOO_LARGE, DISABLED = 0, 1, 4
local FIRST_KEY, FIRST_ROW = 4, 5

-- Until when each credential is left alone, false where it is not.
local cooled = {}

-- Look up the deployments and the credentials of rows at once.
local function look_up(rows)
  local unknown, keys = {}, {}
  for _, asked in ipairs(rows) do
    local deployment, credential = asked.deployment, asked.credential
    if deployment ~= '' and (conditions[deployment] == nil or cooled[credential] == nil) then
      unknown[#unknown + 1], conditions[deployment], cooled[credential] = asked, false, false
      keys[#keys + 1], keys[#keys + 2] = PREFIX .. 'up:' .. deployment, PREFIX .. 'cool:' .. credential
    end
  end
  if #keys == 0 then return end
  local found = call('MGET', unpack(keys))
  for i, asked in ipairs(unknown) do
    conditions[asked.deployment], cooled[asked.credential] = found[2 * i - 1], found[2 * i]
  end
end

local function row_asked(packed, figures, keys, seated)
  local seat = sub(seated, 2)
  local place = decode(seat)
  return {
    row = decode(packed), packed = packed, estimate = decode(figures), figures = figures, keys = keys, seated = seated, seat = seat,
    last = sub(seated, 1, 1) == '1', precedence = place[1], pool = place[2], deployment = place[3], credential = place[4],
    share = place[6],
  }
end

local function rows_asked()
  local rows, base = {}, FIRST_KEY
  for arg = FIRST_ROW, #ARGV, 3 do
    local asked = row_asked(ARGV[arg], ARGV[arg + 1], {}, ARGV[arg + 2])
    for g = 1, #asked.row do asked.keys[g] = KEYS[base + g] end
    base = base + #asked.row
    rows[#rows + 1] = asked
  end
  look_up(rows)
  return rows
end

-- When a leaking or calendar bucket will have shed `weighed`.
local function shed_ms(bucket, group, c, weighed)
  if group[c + KIND] == LEAKS then return bucket.at - now + ceil(weighed / group[c + RATE]) end
  return (floor(bucket.at / group[c + PERIOD]) + 1) * group[c + PERIOD] - now
end

-- What the lease has in a charge's bucket: nothing for a new lease.
local function claim_in(prior, key, dim)
  return prior and prior[key] and prior[key][dim]
end

-- The number of the charge that takes a slot of the row's deployment.
local function slot_of(row)
  local n = 0
  for g = 1, #row do
    for c = FIRST, #row[g], CHARGE do
      if row[g][c + UNIT] == SLOT and row[g][c + REACH] == OF_DEPLOYMENT then return n end
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
-- none does. Taking nothing always fits.
local function refusal_of(index, asked, buckets, prior)
  local n, named, rank, cause, wait, ends, patience = 0, nil, 4, LIMIT, 0, false, 0
  local row, estimate, slots = asked.row, asked.estimate, conditions[asked.deployment] and queue().slots(asked)
  for g = 1, #row do
    local group = row[g]
    for c = FIRST, #group, CHARGE do
      n = n + 1
      local cost, claim = estimate[group[c + UNIT] + 1], claim_in(prior, asked.keys[g], group[c])
      if claim then cost = cost - claim.taken - claim.posted end
      if cost > 0 then
        local bucket, kind, capacity = buckets[n], group[c + KIND], group[c + CAPACITY]
        if slots and group[c + UNIT] == SLOT and group[c + REACH] == OF_DEPLOYMENT then capacity = min(capacity, slots) end
        local lacking = bucket.held + cost - capacity
        local excess = bucket.debt + (kind == LEAKS and lacking * group[c + PERIOD] or lacking)
        if excess > 0 then
          local its_wait = (kind == HELD or lacking > 0) and -1 or shed_ms(bucket, group, c, excess)
          local too_large = cost > group[c + CAPACITY]
          local its_rank = (group[c + ENDS] == 1 and 0 or 2) + (too_large and 0 or 1)
          if its_rank < rank then named, rank, cause = n - 1, its_rank, too_large and TOO_LARGE or LIMIT end
          wait, ends = later(wait, its_wait), ends or group[c + ENDS] == 1
          patience = patience and not too_large and group[c + OWN] == 0 and max(patience, its_wait)
        end
      end
    end
  end
  if conditions[asked.deployment] or cooled[asked.credential] then
    local bar, its_wait = queue().bar(asked)
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
    local group, key = row[g], asked.keys[g]
    for c = FIRST, #group, CHARGE do
      n = n + 1
      local units, was, claim = asked.estimate[group[c + UNIT] + 1], 0, claim_in(prior, key, group[c])
      posted[n] = 0
      if claim then
        was, posted[n] = claim.taken, claim.posted
        units = max(0, units - claim.posted)
        prior[key][group[c]] = nil
      end
      hold(buckets[n], units - was)
      taken[n] = units
    end
  end
  return {
    keys = asked.keys, taken = taken, posted = posted, row = row, packed_row = asked.packed, buckets = buckets, past = {},
    pool = asked.pool, turn = -1, seat = asked.seat,
  }
end

-- A row with nothing but what the caller itself is charged.
local function own_part(asked)
  local row, keys = {}, {}
  for g = 1, #asked.row do
    local group, kept = asked.row[g], {{}}
    for c = FIRST, #group, CHARGE do
      if group[c + OWN] == 1 then
        kept[1][#kept[1] + 1] = group[c]
        for offset = 0, CHARGE - 1 do kept[#kept + 1] = group[c + offset] end
      end
    end
    if #kept > 1 then row[#row + 1], keys[#keys + 1] = kept, asked.keys[g] end
  end
  return {row = row, packed = encode(row), estimate = asked.estimate, keys = keys, pool = '', seat = ''}
end

-- What a lease has: by the row that it leaves, and by rows before that; and the order of both.
local function claims_of(lease)
  local prior, order, n = {}, {}, 0
  local function has(key, dim, claim)
    prior[key] = prior[key] or {}
    prior[key][dim] = claim
    order[#order + 1] = {key, dim}
  end
  for g, group in ipairs(lease.row) do
    for c = FIRST, #group, CHARGE do
      n = n + 1
      has(lease.keys[g], group[c], {
        taken = lease.taken[n], posted = lease.posted[n], group = group, c = c, bucket = lease.buckets[n],
      })
    end
  end
  for i = 1, #lease.past, 3 do has(lease.past[i], lease.past[i + 1], {taken = 0, posted = lease.past[i + 2]}) end
  return prior, order
end

-- Put `new` in the place of `old`, whose remaining claims are let go of; `keeps` says that what the whole request holds goes on. What
-- was posted is never forgotten.
local function replace_lease(old, new, prior, order, keeps)
  local function keep(key, claim)
    if new.keys[#new.keys] ~= key then
      new.keys[#new.keys + 1], new.row[#new.row + 1] = key, {{}}
    end
    local group = new.row[#new.row]
    group[1][#group[1] + 1] = claim.group[claim.c]
    for offset = 0, CHARGE - 1 do group[#group + 1] = claim.group[claim.c + offset] end
    new.taken[#new.taken + 1], new.posted[#new.posted + 1] = claim.taken, claim.posted
  end
  for _, place in ipairs(order) do
    local key, dim = place[1], place[2]
    local claim = prior[key][dim]
    if claim and claim.group and keeps and claim.group[claim.c + REACH] == OF_REQUEST then
      keep(key, claim)
    elseif claim then
      if claim.bucket then hold(claim.bucket, -claim.taken) end
      if claim.posted > 0 then
        for _, value in ipairs({key, dim, claim.posted}) do new.past[#new.past + 1] = value end
      end
    end
  end
  for _, key in ipairs(new.keys) do scopes[key].leases = scopes[key].leases + 1 end
  for _, key in ipairs(old.keys) do leave(scopes[key]) end
  new.ttl, new.used, new.grant, new.opened, new.noted = old.ttl, old.used, old.grant, old.opened, old.noted
end

-- Candidate rows, for the scripts that choose one. Stands between core.lua and the script.
--
-- KEYS from the fifth on are the rows' scopes, row after row. ARGV from the fourth on is a pair for each row: its charges as core.lua
-- tells, and its estimate, indexed by unit; both are msgpack. `prior` is what the lease has in buckets by key and dimension.
--
-- The reply is msgpack: {0 granted, 1 refused or 2 spent, now, row, levels, refusals}. A level is three numbers for each charge of
-- the granted row, or of the last one tested: level, held, reset in ms. A refusal is four: row, charge, wait in ms or -1, never or 0.

local GRANTED, REFUSED, SPENT = 0, 1, 2
local FIRST_KEY, FIRST_ROW = 4, 4

-- When a leaking or calendar bucket will have shed `weighed`.
local function shed_ms(bucket, group, c, weighed)
  if group[c + KIND] == LEAKS then return bucket.at - now + ceil(weighed / group[c + RATE]) end
  return (floor(bucket.at / group[c + PERIOD]) + 1) * group[c + PERIOD] - now
end

-- What the lease has in a charge's bucket: nothing for a new lease.
local function claim_in(prior, key, dim)
  return prior and prior[key] and prior[key][dim]
end

-- The refusal of a row, if it does not fit, and whether no other row may be tried. Taking nothing always fits.
local function refusal_of(index, row, buckets, base, estimate, prior)
  local n, named, rank, never, wait, ends = 0, nil, 4, 0, 0, false
  for g = 1, #row do
    local group = row[g]
    for c = FIRST, #group, CHARGE do
      n = n + 1
      local cost, claim = estimate[group[c + UNIT] + 1], claim_in(prior, KEYS[base + g], group[c])
      if claim then cost = cost - claim.taken - claim.posted end
      if cost > 0 then
        local bucket, kind = buckets[n], group[c + KIND]
        local lacking = bucket.held + cost - group[c + CAPACITY]
        local excess = bucket.debt + (kind == LEAKS and lacking * group[c + PERIOD] or lacking)
        if excess > 0 then
          if wait == -1 or kind == HELD or lacking > 0 then wait = -1 else wait = max(wait, shed_ms(bucket, group, c, excess)) end
          local too_large = cost > group[c + CAPACITY]
          local its_rank = (group[c + ENDS] == 1 and 0 or 2) + (too_large and 0 or 1)
          if its_rank < rank then named, rank, never = n - 1, its_rank, too_large and 1 or 0 end
          ends = ends or group[c + ENDS] == 1
        end
      end
    end
  end
  return named and {index, named, wait, never}, ends
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
local function commit(row, buckets, base, estimate, prior)
  local keys, taken, posted, n = {}, {}, {}, 0
  for g = 1, #row do
    local group, key = row[g], KEYS[base + g]
    for c = FIRST, #group, CHARGE do
      n = n + 1
      local units, was, claim = estimate[group[c + UNIT] + 1], 0, claim_in(prior, key, group[c])
      posted[n] = 0
      if claim then
        was, posted[n] = claim.taken, claim.posted
        units = max(0, units - claim.posted)
        prior[key][group[c]] = nil
      end
      hold(buckets[n], units - was)
      taken[n] = units
    end
    keys[g] = key
  end
  return {keys = keys, taken = taken, posted = posted, row = row}
end

-- Test the rows in order and commit the first that fits. Returns the reply and, where one fitted, the lease that it makes.
local function choose(prior)
  local refusals, levels, index, tested, base = {}, {}, 0, 0, FIRST_KEY
  for arg = FIRST_ROW, #ARGV, 2 do
    local row, estimate = decode(ARGV[arg]), decode(ARGV[arg + 1])
    local buckets = open_row(row, KEYS, base)
    local refusal, ends = refusal_of(index, row, buckets, base, estimate, prior)
    if not refusal then
      local lease = commit(row, buckets, base, estimate, prior)
      lease.packed_row = ARGV[arg]
      return encode({GRANTED, now, index, levels_of(row, buckets), refusals}), lease
    end
    for i = 1, 4 do refusals[#refusals + 1] = refusal[i] end
    levels, tested = levels_of(row, buckets), index
    if ends then break end
    index, base = index + 1, base + #row
  end
  return encode({REFUSED, now, tested, levels, refusals})
end

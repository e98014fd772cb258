-- Candidate rows, tested and committed. Stands behind core.lua.
--
-- Of the scripts that are asked about rows, KEYS from the fifth on are the rows' scopes, row after row, and ARGV from the fifth on the
-- rows. A row is its seat, its estimate, doubles by unit, and its groups. Before the seat stands 1 or 0, whether nothing comes after
-- the row, and the hexadecimal digit of how many groups there are. A seat is msgpack: {precedence, pool or '', deployment or '', credential,
-- slots declared or 0, the part of them that the row's tier may fill, in millionths}. `prior` is what the lease has in buckets, by key
-- and place.
--
-- The reply is msgpack: {0 granted, 1 refused, 2 spent, 3 queued or 4 unseeded, now, row or how many are ahead, levels, refusals, 1
-- where the upstream is watched, and of a grant the epoch, which counts the changes of keys (gateway.policy.keyring)}. A level is three numbers for each charge of the granted row, or of the last one tested: level, held,
-- reset in ms; behind all of them three for each charge that grows with use, see growth.lua. A refusal is four: row, charge, wait in
-- ms or -1, cause. Unseeded, the levels are the charges of the first row that are budgets of which nothing is known.

local GRANTED, REFUSED, SPENT, QUEUED, UNSEEDED = 0, 1, 2, 3, 4
local LIMIT, TOO_LARGE, DISABLED = 0, 1, 4
local FIRST_KEY, FIRST_ROW = 4, 5

local cooled, epoch = {}, nil

-- A row as it is tested. Its groups stand in `texts` behind `at`; `keys` behind `base` are their scopes'.
local function row_of(seated, figures, texts, at, keys, base)
  local n, seat, its_keys = tonumber(sub(seated, 2, 2), 16), sub(seated, 3), {}
  local place = decode(seat)
  for g = 1, n do its_keys[g] = keys[base + g] end
  return {
    row = groups_of(texts, at, n), keys = its_keys, estimate = {from_bytes(FIGURES, figures)}, figures = figures, seated = seated,
    seat = seat, last = sub(seated, 1, 1) == '1', precedence = place[1], pool = place[2], deployment = place[3],
    credential = place[4], share = place[6],
  }
end

-- Look up what a row's verdict depends on besides its buckets: who waits in its pool, how its deployment and its credential are doing.
local function look_up(asked)
  local pool, deployment, credential = asked.pool, asked.deployment, asked.credential
  if pools[pool] ~= nil and conditions[deployment] ~= nil and cooled[credential] ~= nil then return end
  local found = call('MGET', PREFIX .. 'pool:' .. pool, PREFIX .. 'up:' .. deployment, PREFIX .. 'cool:' .. credential)
  if pools[pool] == nil then pools[pool] = found[1] end
  conditions[deployment], cooled[credential] = found[2], found[3]
end

-- When a leaking or calendar bucket will have shed `weighed`.
local function shed_ms(scope, group, c, weighed)
  local at, period = scope[group[c] + 1], group[c + PERIOD]
  if group[c + KIND] <= LEAKS then return at - now + ceil(weighed / group[c + RATE]) end
  return period_end(at, period) - now
end

-- The refusal of a row, if it does not fit, whether no other row may be tried, and the least patience that may make it fit, false where
-- none does. Taking nothing always fits. `fits` keeps the groups that fitted a row before, which need no second look.
local function refusal_of(index, asked, opened, prior, fits)
  local n, named, rank, cause, wait, ends, patience = -1, nil, 4, LIMIT, 0, false, 0
  local row, estimate, slots = asked.row, asked.estimate, conditions[asked.deployment] and seldom().slots(asked)
  for g = 1, #row do
    local group, scope, claims = row[g], opened[g], prior and prior[asked.keys[g]]
    local fine = fits[group] == asked.figures
    if fine then
      n = n + (group.last - 2) / CHARGE
    else
      fine = true
      for c = FIRST, group.last, CHARGE do
        n = n + 1
        local place = group[c]
        local cost, claim = estimate[group[c + UNIT] + 1], claims and claims[place]
        if claim then cost = cost - claim.taken - claim.posted end
        local kind = group[c + KIND]
        if cost > 0 and kind ~= USE and group[c + ENDS] ~= SHADOW then
          local capacity = group[c + CAPACITY]
          if slots and group[c + UNIT] == SLOT and group[REACH] == OF_DEPLOYMENT then capacity = min(capacity, slots) end
          local lacking = scope[place + 2] + cost - capacity
          local excess = scope[place] + (kind == LEAKS and lacking * group[c + PERIOD] or lacking)
          if excess > 0 then
            local its_wait = (kind == HELD or lacking > 0) and -1 or shed_ms(scope, group, c, excess)
            local too_large = cost > group[c + CAPACITY]
            local its_rank = (group[c + ENDS] == 1 and 0 or 2) + (too_large and 0 or 1)
            if its_rank < rank then named, rank, cause = n, its_rank, too_large and TOO_LARGE or LIMIT end
            wait = (wait == -1 or its_wait == -1) and -1 or max(wait, its_wait)
            ends, fine = ends or group[c + ENDS] == 1, false
            patience = patience and not too_large and group[OWN] == 0 and max(patience, its_wait)
          end
        end
      end
      if fine then fits[group] = asked.figures end
    end
  end
  if conditions[asked.deployment] or cooled[asked.credential] then
    local bar, its_wait = seldom().bar(asked)
    if bar then
      if not named then named, cause = seldom().slot_of(row), bar end
      wait = (wait == -1 or its_wait == -1) and -1 or max(wait, its_wait)
      patience = patience and bar ~= DISABLED and max(patience, its_wait)
    end
  end
  return named and {index, named, wait, cause}, ends, patience
end

local function levels_of(row, opened)
  local levels, n, grows = {}, 0, false
  for g = 1, #row do
    local group, scope = row[g], opened[g]
    grows = grows or group.written
    for c = FIRST, group.last, CHARGE do
      local place, kind = group[c], group[c + KIND]
      local debt, held, weight = scope[place], scope[place + 2], kind <= LEAKS and group[c + PERIOD] or 1
      local weighed = debt + held * weight
      levels[n + 1], levels[n + 2] = ceil(debt / weight), held
      levels[n + 3] = (kind == HELD or weighed == 0) and 0 or shed_ms(scope, group, c, weighed)
      n = n + 3
    end
  end
  if grows then growing().add_growth(levels, row, opened) end
  return levels
end

-- Hold for each charge what was not posted yet. Returns the lease that it makes; `prior` claims that it takes over are used up.
local function commit(asked, opened, prior)
  local row, taken, posted, n = asked.row, {}, {}, 0
  for g = 1, #row do
    local group, scope, claims = row[g], opened[g], prior and prior[asked.keys[g]]
    for c = FIRST, group.last, CHARGE do
      n = n + 1
      local place = group[c]
      local units, was, claim = group[c + KIND] == USE and 0 or asked.estimate[group[c + UNIT] + 1], 0, claims and claims[place]
      posted[n] = 0
      if claim then
        was, posted[n] = claim.taken, claim.posted
        units = max(0, units - claim.posted)
        claims[place] = nil
      end
      hold(scope, place, units - was)
      taken[n] = units
    end
    scope[LEASES] = scope[LEASES] + 1
  end
  return {
    keys = asked.keys, taken = taken, posted = posted, row = row, scopes = opened, past = {}, pool = asked.pool, turn = -1,
    seat = asked.seat,
  }
end

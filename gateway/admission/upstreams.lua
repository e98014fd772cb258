-- How upstreams are doing, and which of them may be asked now: the rules are those of gateway.policy.upstreams. It stands in `open_room`,
-- before queue.lua.
--
-- A condition is twelve doubles under `up:<deployment>`, in the order of FIELDS, then the id of the lease that probes; without the key
-- all is well. Until when a credential is left alone stands under `cool:<credential>`, in ms, below zero where it was refused. Neither
-- outlives an hour without a change, unless the operator said so.

local FIELDS = {
  'slots_milli', 'cut', 'cooled_until', 'failures', 'window', 'ended', 'failed', 'open_until', 'openings', 'proven', 'probing_until',
  'disabled',
}
local SHAPE, LENGTH = 'dddddddddddd', 96
local CUT_PAUSE_MS, KEPT_PER_TEN, COOLDOWN_MS, FEWEST_ENDED, PROBES, PROBE_MS, MOST_DOUBLINGS = 2000, 7, 1000, 20, 2, 30000, 20
local COOLING, OPEN = 2, 3
local SIGN_GOOD, SIGN_BUSY, SIGN_RATE, SIGN_SLOW, SIGN_FAULT, SIGN_DENIED, SIGN_ONE_RATE, SIGN_ONE_DENIED = 1, 2, 3, 4, 5, 6, 7, 8

local function read_condition(deployment)
  local text, found = condition_of(deployment), {probe = ''}
  if not text then
    for _, field in ipairs(FIELDS) do found[field] = 0 end
    return found
  end
  local figures = {from_bytes(SHAPE, text)}
  for i, field in ipairs(FIELDS) do found[field] = figures[i] end
  found.probe = sub(text, LENGTH + 1)
  return found
end

local function write_condition(deployment, found)
  local figures, is_well = {}, found.probe == ''
  for i, field in ipairs(FIELDS) do
    figures[i] = found[field]
    is_well = is_well and found[field] == 0
  end
  local key, text = PREFIX .. 'up:' .. deployment, false
  if is_well then
    call('DEL', key)
  else
    text = to_bytes(SHAPE, unpack(figures)) .. found.probe
    if found.disabled == 1 then call('SET', key, text) else call('SET', key, text, 'PX', REST_MS) end
  end
  conditions[deployment] = text
end

-- How many slots a lowered ceiling leaves a row's tier, nil where none was lowered.
local function slots(asked)
  local found = read_condition(asked.deployment)
  if found.slots_milli > 0 then return max(1, floor(found.slots_milli * asked.share / 1000000000)) end
end

-- Why a row's upstream may not be asked now, and for how long.
local function bar(asked)
  local found = read_condition(asked.deployment)
  if found.disabled == 1 then return DISABLED, -1 end
  local of_credential = tonumber(cooled[asked.credential] or 0)
  local cooled_until = max(found.cooled_until, of_credential)
  local open_until = asked.last and 0 or max(found.open_until, -of_credential)
  local until_ms = max(cooled_until, open_until)
  if until_ms > now then return cooled_until > now and COOLING or OPEN, until_ms - now end
  if found.open_until > 0 and found.probing_until > now and not asked.last then return OPEN, -1 end
end

-- Take note of a request on its way; 1 where there is something to be said of the deployment.
local function ask(id, deployment)
  if not condition_of(deployment) then return 0 end
  local found = read_condition(deployment)
  if found.open_until > 0 and found.open_until <= now and found.probing_until <= now then
    found.probe, found.probing_until = id, now + PROBE_MS
    write_condition(deployment, found)
  end
  return 1
end

-- `way` is 1, or -1 where it was refused.
local function cool_credential(credential, wait, way)
  local key, known = PREFIX .. 'cool:' .. credential, cooled[credential]
  if known == nil then known = call('GET', key) end
  local until_ms = max(math.abs(tonumber(known or 0)), now + wait)
  call('SET', key, way * until_ms, 'PX', max(1, until_ms - now))
  cooled[credential] = tostring(way * until_ms)
end

local function cut(found, declared)
  if now < found.cut + CUT_PAUSE_MS then return end
  local ceiling = found.slots_milli > 0 and found.slots_milli or declared * 1000
  found.slots_milli, found.cut = max(1, floor(ceiling * KEPT_PER_TEN / 10000)) * 1000, now
end

local function grow(found, declared, running)
  if found.slots_milli > 0 and 2000 * running >= found.slots_milli then
    found.slots_milli = found.slots_milli + max(1, floor(1000000 / found.slots_milli))
  end
  if declared > 0 and found.slots_milli >= declared * 1000 then found.slots_milli, found.cut = 0, 0 end
end

local function open_breaker(found, terms)
  local rest = min(terms.max_open, terms.open * 2 ^ min(found.openings, MOST_DOUBLINGS))
  found.open_until = now + floor(rest * (8000 + 4 * terms.dice) / 10000)
  found.openings = found.openings + 1
  found.proven, found.failures, found.window, found.ended, found.failed = 0, 0, 0, 0, 0
end

local function count_ending(found, sign, terms, probed)
  local failed = sign >= SIGN_SLOW
  if found.open_until > 0 then
    if probed and failed then
      open_breaker(found, terms)
    elseif probed then
      found.proven = found.proven + 1
      if found.proven >= PROBES then found.open_until, found.openings, found.proven = 0, 0, 0 end
    end
    return
  end
  found.failures = failed and found.failures + 1 or 0
  if failed and found.window == 0 then found.window = now end
  if found.window > 0 then
    found.ended, found.failed = found.ended + 1, found.failed + (failed and 1 or 0)
  end
  local is_bad = found.failures >= terms.failures
    or (found.ended >= FEWEST_ENDED and found.failed * 1000000 >= terms.ratio * found.ended)
  if failed and (sign > SIGN_FAULT or is_bad) then open_breaker(found, terms) end
end

local function terms_of(ending)
  local said = decode(sub(ending, 3))
  return {
    hint = said[1], dice = said[2], exhausted = said[3], failures = said[4], ratio = said[5], window = said[6], open = said[7],
    max_open = said[8], cooldown_max = said[9],
  }
end

local function with_dice(wait, terms) return wait + floor(wait * terms.dice / 10000) end

local function cooldown(terms)
  return with_dice(min(terms.hint > 0 and terms.hint or COOLDOWN_MS, terms.cooldown_max), terms)
end

-- How many run on the deployment that a lease has, itself included.
local function running_of(lease)
  for g, group in ipairs(lease.row) do
    for c = FIRST, group.last, CHARGE do
      if group[c + UNIT] == SLOT and group[REACH] == OF_DEPLOYMENT then return lease.scopes[g][group[c] + 2] end
    end
  end
  return 0
end

-- Take note of how an attempt ended, or does so far; the lease still holds its slot.
local function note_ending(id, lease, seat, ending)
  local deployment, sign = seat[3], tonumber(sub(ending, 2, 2))
  if deployment == '' or (ending < '1' and not condition_of(deployment)) then return end
  local found = read_condition(deployment)
  local probed = found.probe == id
  if probed then found.probe, found.probing_until = '', 0 end
  if sign > 0 then
    local terms, running = terms_of(ending), running_of(lease)
    if found.cooled_until <= now then found.cooled_until = 0 end
    if now >= found.window + terms.window then found.window, found.ended, found.failed = 0, 0, 0 end
    if terms.exhausted > 0 then cool_credential(seat[4], min(terms.exhausted, terms.cooldown_max), 1) end
    if sign >= SIGN_BUSY and sign <= SIGN_SLOW then cut(found, seat[5] > 0 and seat[5] or running) end
    if sign == SIGN_BUSY then found.cooled_until = max(found.cooled_until, now + cooldown(terms)) end
    if sign == SIGN_RATE or sign == SIGN_ONE_RATE then cool_credential(seat[4], cooldown(terms), 1) end
    if sign == SIGN_ONE_DENIED then cool_credential(seat[4], with_dice(terms.cooldown_max, terms), -1) end
    if sign == SIGN_GOOD then grow(found, seat[5], running) end
    if sign == SIGN_GOOD or (sign >= SIGN_SLOW and sign <= SIGN_DENIED) then count_ending(found, sign, terms, probed) end
  end
  write_condition(deployment, found)
end


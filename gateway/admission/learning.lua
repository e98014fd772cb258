-- What requests teach (see gateway.policy.learning). Stands behind core.lua.
--
-- One hash for each model, 'learned:' and its name. Its field 'ratio' is two doubles: the day of its last lesson, and tokens a byte in
-- millionths. For each org there is a field 'o:' and its name: the day of the last answer, a double, then how many fell into each bucket,
-- a byte each.

local byte, char = string.byte, string.char

local USUAL_RATIO, SMOOTHING = 333333, 16
local BUCKETS, FIRST_BOUND, GROWTH, MOST_SAMPLES = 37, 128, 8, 256
local KEPT_DAYS, KEPT_MS = 7, 777600000

-- Count an answer, and return how many there are now.
local function count(counts, samples, output)
  local at, bound = 1, FIRST_BOUND
  while output > bound and at < BUCKETS do at, bound = at + 1, bound + floor(bound / GROWTH) end
  counts[at], samples = counts[at] + 1, samples + 1
  if samples < MOST_SAMPLES then return samples end
  samples = 0
  for bucket = 1, BUCKETS do
    counts[bucket] = floor(counts[bucket] / 2)
    samples = samples + counts[bucket]
  end
  return samples
end

-- The bound that 19 of 20 answers keep.
local function percentile(counts, samples)
  if samples == 0 then return 0 end
  local at, bound, seen = 1, FIRST_BOUND, counts[1]
  while 20 * seen < 19 * samples do
    at, bound = at + 1, bound + floor(bound / GROWTH)
    seen = seen + counts[at]
  end
  return bound
end

-- Take a lesson in: tokens a byte, and the length of an answer, each 0 where there was none. Return the model's ratio, the org's 95th
-- percentile and how many answers it is of.
local function learn(org, model, ratio, output)
  local key, own, today = PREFIX .. 'learned:' .. model, 'o:' .. org, floor(now / DAY_MS)
  local known = call('HMGET', key, 'ratio', own)
  local day, learned = 0, USUAL_RATIO
  if known[1] then day, learned = from_bytes('dd', known[1]) end
  if today - day > KEPT_DAYS then learned = USUAL_RATIO end
  if ratio > 0 then learned = learned + floor((ratio - learned) / SMOOTHING) end
  local fields, counts, samples = {'ratio', to_bytes('dd', today, learned)}, {}, 0
  if known[2] and today - from_bytes('d', known[2]) <= KEPT_DAYS then counts = {byte(known[2], 9, -1)} end
  for bucket = 1, BUCKETS do
    counts[bucket] = counts[bucket] or 0
    samples = samples + counts[bucket]
  end
  if output > 0 then
    samples = count(counts, samples, output)
    fields[3], fields[4] = own, to_bytes('d', today) .. char(unpack(counts))
  end
  call('HSET', key, unpack(fields))
  if day ~= today then call('PEXPIRE', key, KEPT_MS) end
  return learned, percentile(counts, samples), samples
end

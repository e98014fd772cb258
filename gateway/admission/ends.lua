-- What ends take: posting, letting go, and the word on an upstream. Stands behind core.lua.

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

local function drop_lease(id)
  call('DEL', PREFIX .. 'lease:' .. id)
  call('ZREM', KEYS[1], id)
end

-- Note how the attempt of a lease ended, if one is under way. `ending` is 1 where it is news even of an upstream that is well, 0
-- elsewhere; the digit of its sign; and what upstreams.lua needs to judge it.
local function end_attempt(id, lease, ending)
  if lease.seat == '' then return end
  local seat = decode(lease.seat)
  if ending >= '1' or condition_of(seat[3]) then seldom().note(id, lease, seat, ending) end
  lease.seat = ''
end

-- End lapsed leases, keep a worker's waiters alive, and give the turns that time has brought.
--
-- KEYS: leases, ledger. ARGV: now, the worker's name, then the waiters' ids. The reply is how many workers there are, then a number for
-- each waiter: 0 gone, 1 waiting, 2 its turn has come; at its end the epoch (rows.lua). A worker is there for as long as it ticks.

local WORKER_TTL_MS = 10000

reap()
local workers = PREFIX .. 'workers'
call('ZREMRANGEBYSCORE', workers, '-inf', now)
call('ZADD', workers, now + WORKER_TTL_MS, ARGV[2])
call('PEXPIRE', workers, 2 * WORKER_TTL_MS)
local places, named = {}, {}
for i = 3, #ARGV do
  local lease = seldom().read_lease(ARGV[i])
  if lease and lease.waiter then
    call('ZADD', KEYS[1], now + WAITER_TTL_MS, ARGV[i])
    local name = lease.waiter[1]
    if not named[name] then places[#places + 1] = name end
    named[name] = true
  end
end
for _, name in ipairs(places) do dispatch(name) end
local turns = {call('ZCARD', workers)}
for i = 3, #ARGV do
  local lease = seldom().read_lease(ARGV[i])
  turns[i - 1] = not lease and 0 or lease.waiter and 1 or 2
end
turns[#ARGV] = tonumber(call('GET', PREFIX .. 'authz_epoch') or 0)
flush()
return turns

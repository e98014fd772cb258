-- End lapsed leases, keep a worker's waiters alive, and give the turns that time has brought.
--
-- KEYS: leases, ledger. ARGV: now, then the waiters' ids. The reply is a number for each: 0 gone, 1 waiting, 2 its turn has come.

reap()
local places, named = {}, {}
for i = 2, #ARGV do
  local lease = read_lease(ARGV[i])
  if lease and lease.waiter then
    call('ZADD', KEYS[1], now + WAITER_TTL_MS, ARGV[i])
    local name = lease.waiter[1]
    if not named[name] then places[#places + 1] = name end
    named[name] = true
  end
end
for _, name in ipairs(places) do dispatch(name) end
local turns = {}
for i = 2, #ARGV do
  local lease = read_lease(ARGV[i])
  turns[i - 1] = not lease and 0 or lease.waiter and 1 or 2
end
flush()
return turns

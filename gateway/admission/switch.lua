-- End a lease's attempt and take the first candidate row that fits, under the same lease and at the same instant, or wait for one.
--
-- KEYS: leases, ledger, the lease, its tombstone, then the rows' scopes. ARGV: now, the lease's ttl in ms, how the attempt ended (see
-- `end_attempt`), how it may wait, then the rows. The reply is that of acquire.lua. Where no row fits, the lease keeps what the whole
-- request holds.

local CODE_BUSY, CODE_RATE = '2', '3'

local id = sub(KEYS[3], #PREFIX + 7)
reap()
local old = read_lease(id)
if not old or waits(old) then
  flush()
  return encode({SPENT, now, 0, {}, {}, 0})
end
local left, ttl, sign = old.pool, tonumber(ARGV[2]), sub(ARGV[3], 2, 2)
if sign ~= CODE_BUSY and sign ~= CODE_RATE then post_all(old, true, nil) end
end_attempt(id, old, ARGV[3])
local reply, new, prior, order = serve(id, old, ttl, ARGV[4])
if not new then
  new = {keys = {}, scopes = {}, taken = {}, posted = {}, row = {}, past = {}, pool = '', turn = -1, seat = ''}
  seldom().replace_lease(old, new, prior, order, true)
  new.ttl = ttl
end
if not new.waiter then write_lease(id, new, ttl) end
dispatch(left)
flush()
return reply

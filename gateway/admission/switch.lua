-- End a lease's attempt or its wait and take the first candidate row that fits, under the same lease and at the same instant, or wait.
--
-- KEYS: leases, ledger, the lease, its tombstone, then the rows' scopes. ARGV: now, the lease's ttl in ms, how the attempt ended (see
-- `end_attempt`), how it may wait, then the rows. The reply is that of acquire.lua. Where no row fits, the lease keeps what the whole
-- request holds; one that has only waited is over.

local OF_CAPACITY = {['2'] = true, ['3'] = true, ['7'] = true}

local id = sub(KEYS[3], #PREFIX + 7)
reap()
epoch = tonumber(call('GET', PREFIX .. 'authz_epoch') or 0)
local old = read_lease(id)
local not_now = not old and encode({SPENT, now, 0, {}, {}, 0}) or unseeded()
if not_now then
  flush()
  return not_now
end
local ttl, sign = tonumber(ARGV[2]), sub(ARGV[3], 2, 2)
if not waits(old) and not OF_CAPACITY[sign] then post_all(old, true, nil) end
if old.waiter then seldom().leave(id, old) end
end_attempt(id, old, ARGV[3])
local reply, new, prior, order = serve(id, old, ttl, ARGV[4])
if not new and old.noted == 0 then
  drop_lease(id)
  seldom().withdraw(id, old, nil)
  flush()
  return reply
end
if not new then
  new = {keys = {}, scopes = {}, taken = {}, posted = {}, row = {}, past = {}, pool = '', turn = -1, seat = ''}
  seldom().replace_lease(old, new, prior, order, true)
  new.ttl = ttl
end
if not new.waiter then
  if new.noted == 0 then
    new.grant, new.noted = reply, 1
    note('open', id, new.opened)
  end
  write_lease(id, new, ttl)
end
dispatch(old.pool)
flush()
return reply

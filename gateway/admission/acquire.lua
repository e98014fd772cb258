-- Take the first candidate row that fits, under a new lease, or wait for one; a refusal writes nothing.
--
-- KEYS: leases, ledger, the lease, its tombstone, then the rows' scopes. ARGV: now, the lease's ttl in ms, the ledger's opening, how it
-- may wait, then the rows. A live lease answers as it did before, an ended one is spent.

local id = sub(KEYS[3], #PREFIX + 7)
reap()
local known = call('MGET', KEYS[3], KEYS[4], PREFIX .. 'authz_epoch')
epoch = tonumber(known[3] or 0)
local lease, reply
if known[1] then
  reply = seldom().said(seldom().lease_of(known[1]))
elseif known[2] then
  reply = encode({SPENT, now, 0, {}, {}, 0})
else
  reply = unseeded()
end
if not reply then
  reply, lease = serve(id, nil, tonumber(ARGV[2]), ARGV[4])
  if lease and not lease.waiter then
    lease.grant, lease.noted = reply, 1
    write_lease(id, lease, lease.ttl)
    call('XADD', KEYS[2], '*', 'kind', 'open', 'id', id, 'blob', ARGV[3])
  end
end
flush()
return reply

-- Take the first candidate row that fits, under a new lease; a refusal writes nothing.
--
-- KEYS: leases, ledger, the lease, its tombstone, then the rows' scopes. ARGV: now, the lease's ttl in ms, the ledger's opening,
-- then the rows. A live lease answers as it did before, an ended one is spent.

local id = sub(KEYS[3], #PREFIX + 7)
reap()
local lease, reply = read_lease(id), nil
if lease then
  reply = lease.grant
elseif call('EXISTS', KEYS[4]) == 1 then
  reply = encode({SPENT, now, 0, {}, {}})
else
  reply, lease = choose(nil)
  if lease then
    for _, key in ipairs(lease.keys) do scopes[key].leases = scopes[key].leases + 1 end
    lease.ttl, lease.used, lease.past, lease.grant, lease.opened = tonumber(ARGV[2]), '', {}, reply, ARGV[3]
    write_lease(id, lease)
    note('open', id, ARGV[3])
  end
end
flush()
return reply

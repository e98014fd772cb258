-- Take the turn that has come: from now on the lease is like any other. KEYS: leases, ledger, the lease. ARGV: now. The reply is that of
-- acquire.lua, its row among those that were asked about; a waiter whose turn has not come is told so.

local id = sub(KEYS[3], #PREFIX + 7)
local lease = read_lease(id)
if not lease then return encode({SPENT, now, 0, {}, {}, 0}) end
if lease.turn >= 0 then
  lease.grant = encode({GRANTED, now, lease.turn, levels_of(lease.row, lease.buckets), {}, watched(lease)})
  if lease.noted == 0 then note('open', id, lease.opened) end
  lease.turn, lease.noted = -1, 1
  write_lease(id, lease, lease.ttl)
end
return said(lease)
